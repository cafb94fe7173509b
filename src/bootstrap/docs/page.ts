import type { OpenAPIObject } from '@nestjs/swagger';

/**
 * A page of the service. All URLs in it are relative, because a proxy may add a prefix to the path.
 * @param folder where the page's files are
 * @param styles names of style sheets there, beside the page's own
 */
export function renderPage(folder: string, styles: readonly string[], body: string): string {
  const links = [...styles, 'page.css'].map((name) => `<link rel="stylesheet" href="${folder}${name}">`);
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Authentication service</title>
    <link rel="icon" type="image/png" href="${folder}favicon-32x32.png" sizes="32x32">
    <link rel="icon" type="image/png" href="${folder}favicon-16x16.png" sizes="16x16">
    ${links.join('\n    ')}
  </head>
  ${body}
</html>
`;
}

/** @param folder relative URL of the page's files */
export function renderSwaggerPage(folder: string): string {
  return renderPage(
    folder,
    ['swagger-ui.css', 'index.css'],
    `<body>
    <div id="swagger-ui"></div>
    <script src="${folder}swagger-ui-bundle.js"></script>
    <script src="${folder}swagger-ui-init.js"></script>
  </body>`,
  );
}

/** A file of its own, because the content security policy does not allow inline scripts. */
export function renderInitScript(document: OpenAPIObject): string {
  const options = {
    dom_id: '#swagger-ui',
    deepLinking: true,
    // In local storage, which outlives the tab. The plugin below uses the session storage.
    persistAuthorization: false,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    defaultModelsExpandDepth: 0,
    spec: document,
  };
  return `const options = ${JSON.stringify(options)};\n${PLUGIN}`;
}

/** Runs in the browser. */
const PLUGIN = `
const STORAGE_KEY = 'platform-auth.authorized';
// Keys and tokens are typed into a field that hides them. Without autoFocus, which would scroll to the last field.
const SecretInput = (Input, { React }) => ({ autoFocus, ...props }) => {
  const isSecret = ['api_key_value', 'auth-bearer-value'].includes(props.id);
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
window.ui = SwaggerUIBundle({ ...options, plugins: [plugin], onComplete: restore });
`;

/** Loaded after the style sheets of Swagger UI. */
export const PAGE_CSS = `.home { font-family: sans-serif; line-height: 1.6; margin: 2rem auto; max-width: 40rem; padding: 0 1rem; }
/* No response has links. */
.swagger-ui .responses-table .response-col_links { display: none; }
@media (max-width: 640px) {
  .swagger-ui .responses-table, .swagger-ui .responses-table > tbody,
  .swagger-ui .responses-table > tbody > tr, .swagger-ui .responses-table > tbody > tr > td,
  .swagger-ui table.parameters, .swagger-ui table.parameters > tbody,
  .swagger-ui table.parameters > tbody > tr, .swagger-ui table.parameters > tbody > tr > td {
    display: block; max-width: 100%; min-width: 0; width: 100%;
  }
  .swagger-ui .responses-table > thead, .swagger-ui table.parameters > thead { display: none; }
  .swagger-ui .responses-inner { padding: 10px; }
  .swagger-ui table.headers { table-layout: fixed; width: 100%; }
  .swagger-ui table.headers td, .swagger-ui table.headers .header-example { overflow-wrap: anywhere; }
  .swagger-ui .examples-select-element, .swagger-ui .content-type { max-width: 100%; }
  .swagger-ui .parameters-col_description input { max-width: 100%; }
  .swagger-ui .opblock-section-header { flex-wrap: wrap; }
  .swagger-ui .auth-container input { width: 100%; }
}
`;
