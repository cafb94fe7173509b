/* global PublicKeyCredential, document, prompt */
// Registers a passkey, and logs in with it: after the password, or alone. Everything that a page of your own needs is in
// `addPasskey`, `logIn` and `logInWithPasskey`.
import { service } from './service.js';

let accessToken;

/** @returns the body of the answer, with its status; a problem (RFC 9457) for an error */
async function call(path, body) {
  const headers = { 'Content-Type': 'application/json' };
  if (accessToken) headers.Authorization = `Bearer ${accessToken}`;
  const response = await fetch(`${service}/api/v0${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: response.status, ...(await response.json()) };
}

/** The options come from the service as JSON, and the answer goes back as JSON: the browser converts both. */
async function askForPasskey(options) {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  return (await navigator.credentials.get({ publicKey })).toJSON();
}

async function addPasskey(password) {
  const options = await prove('/users/me/passkeys/options', { password });
  if (options.status !== 200) return options;
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
  const passkey = (await navigator.credentials.create({ publicKey })).toJSON();
  return call('/users/me/passkeys', { name: 'this browser', passkey });
}

/** An account with a second factor is asked for a fresh one, beside the password. */
async function prove(path, body) {
  const answer = await call(path, body);
  if (answer.code !== 'fresh_second_factor_required') return answer;
  if (answer.methods.includes('passkey'))
    return call(path, { ...body, passkey: await askForPasskey(answer.passkey_options) });
  return call(path, { ...body, code: prompt('A fresh code of your authenticator app') });
}

async function logIn(email, password) {
  const answer = await call('/auth/login', { email, password });
  if (answer.code !== 'second_factor_required') return answer;
  const { challenge, methods, passkey_options } = answer;
  if (!methods.includes('passkey')) {
    const code = prompt('The code of your authenticator app');
    return call('/auth/login/second-factor', { challenge, method: 'totp', code });
  }
  const passkey = await askForPasskey(passkey_options);
  return call('/auth/login/second-factor', { challenge, method: 'passkey', passkey });
}

async function logInWithPasskey() {
  const options = await call('/auth/login/passkey/options', {});
  if (options.status !== 200) return options;
  return call('/auth/login/passkey', { passkey: await askForPasskey(options) });
}

/** What the session was made with (RFC 8176), from the access token. */
function readMethods(token) {
  const payload = token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/');
  return JSON.parse(atob(payload)).amr;
}

const field = (id) => document.getElementById(id).value;

function show(what, answer) {
  if (answer.access_token) accessToken = answer.access_token;
  document.getElementById('add-passkey').disabled = accessToken === undefined;
  const { status, code } = answer;
  const amr = answer.access_token && readMethods(answer.access_token);
  document.getElementById('result').textContent = JSON.stringify({ what, status, code, amr });
}

function onClick(id, act) {
  document.getElementById(id).addEventListener('click', async () => {
    try {
      show(id, await act());
    } catch (error) {
      show(id, { status: 0, code: String(error) });
    }
  });
}

onClick('register', () => call('/auth/register', { email: field('email'), password: field('password') }));
onClick('log-in', () => {
  accessToken = undefined;
  return logIn(field('email'), field('password'));
});
onClick('log-in-with-passkey', () => {
  accessToken = undefined;
  return logInWithPasskey();
});
onClick('add-passkey', () => addPasskey(field('password')));
