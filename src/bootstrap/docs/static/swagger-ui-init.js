// The page defines `spec`, the OpenAPI document, before this script. The script is a file, because the content security
// policy allows no inline script.
const STORAGE_KEY = 'platform-auth.authorized';
// Keys and tokens are typed into a field that hides them. It has no autoFocus, which would scroll to the last field.
const SecretInput =
  (Input, { React }) =>
  ({ autoFocus, ...props }) => {
    const isSecret = ['api_key_value', 'auth-bearer-value', 'auth-basic-username'].includes(props.id);
    const secret = { type: 'password', autoComplete: 'off' };
    return React.createElement(Input, isSecret ? { ...props, ...secret } : { autoFocus, ...props });
  };
// Keeps the credentials of the dialog in session storage, so that they survive a reload of this tab.
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
  // Swagger UI would use local storage, which outlives the tab.
  persistAuthorization: false,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
  plugins: [plugin],
  onComplete: restore,
});
