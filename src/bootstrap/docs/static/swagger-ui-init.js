// `spec`, the OpenAPI document, is defined in front of this text. A file of its own, because the content security policy
// does not allow inline scripts.
const STORAGE_KEY = 'platform-auth.authorized';
// Keys, tokens and the names that belong to them are typed into a field that hides them. Without autoFocus, which would scroll
// to the last field.
const SecretInput =
  (Input, { React }) =>
  ({ autoFocus, ...props }) => {
    const isSecret = ['api_key_value', 'auth-bearer-value', 'auth-basic-username'].includes(props.id);
    const secret = { type: 'password', autoComplete: 'off' };
    return React.createElement(Input, isSecret ? { ...props, ...secret } : { autoFocus, ...props });
  };
// Keeps the credentials of the dialog in this tab, so that they survive a reload.
const saveAfter = (act, system) => (payload) => {
  const result = act(payload);
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify(system.authSelectors.authorized()));
  return result;
};
const plugin = {
  wrapComponents: { Input: SecretInput },
  statePlugins: { auth: { wrapActions: { authorize: saveAfter, logout: saveAfter } } },
};
const restore = () => {
  const saved = sessionStorage.getItem(STORAGE_KEY);
  if (saved) window.ui.authActions.restoreAuthorization({ authorized: JSON.parse(saved) });
};
window.ui = SwaggerUIBundle({
  spec,
  dom_id: '#swagger-ui',
  deepLinking: true,
  // In local storage, which outlives the tab. The plugin uses the session storage.
  persistAuthorization: false,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
  plugins: [plugin],
  onComplete: restore,
});
