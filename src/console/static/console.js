// What pages of the console do beyond forms and links; they work without it, except for passkeys.

const REFRESH_MS = 10_000;

const ASK_BROWSER = {
  get: (options) => navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) }),
  create: (options) =>
    navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) }),
};

// A form that asks for a passkey is sent with the answer of the browser, and not at all without one.
addEventListener('submit', (event) => {
  const form = event.target;
  const fields = [...form.querySelectorAll('[data-passkey]')].filter(({ value }) => value === '');
  if (fields.length === 0) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  sendWithPasskeys(form, fields);
});

async function sendWithPasskeys(form, fields) {
  const buttons = form.querySelectorAll('button');
  for (const button of buttons) button.disabled = true;
  try {
    for (const field of fields) {
      const { passkey, options } = field.dataset;
      field.value = JSON.stringify((await ASK_BROWSER[passkey](JSON.parse(options))).toJSON());
    }
    form.requestSubmit();
  } catch {
    for (const field of fields) field.value = '';
    for (const button of buttons) button.disabled = false;
    form.querySelector('[data-passkey-failure]').hidden = false;
  }
}

// A form is sent once, even after an impatient second click.
addEventListener('submit', ({ target }) => {
  if (!target.matches('form[data-once]')) return;
  for (const button of target.querySelectorAll('button')) button.disabled = true;
});

// A page that the browser restores may show a key, or a form that was sent, so it is loaded anew.
addEventListener('pageshow', ({ persisted }) => {
  if (persisted) location.reload();
});

// Copying needs JavaScript, so its buttons are shown only with it; a refreshed page has new ones.
document.documentElement.classList.add('with-script');
addEventListener('click', async ({ target }) => {
  if (!target.matches('[data-copy]')) return;
  await navigator.clipboard.writeText(target.parentElement.querySelector('code').textContent);
  target.textContent = 'Copied';
});

const isBusy = () => document.hidden || document.querySelector('main').contains(document.activeElement);

async function refresh() {
  if (isBusy()) return;
  const response = await fetch(location.href, { redirect: 'error', headers: { 'X-Console-Refresh': 'yes' } });
  if (!response.ok || isBusy()) return;
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  document.querySelector('main').replaceWith(page.querySelector('main'));
}

if (document.querySelector('[data-live]')) setInterval(() => refresh().catch(() => undefined), REFRESH_MS);
