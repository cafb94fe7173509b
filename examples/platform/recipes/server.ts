// A service that keeps recipes: users read them, and ocr adds drafts. Its environment is the file that `init` wrote.
import express from 'express';
import { Verifier } from '@platform-auth/verifier';
import { getPrincipal, requireApp, requireUser } from '@platform-auth/verifier/express';

const TIMEOUT_MS = 5_000;
const { PORT, OCR_URL = '', OCR_APP_ID = '', OCR_APP_KEY = '' } = process.env;

const auth = Verifier.fromEnvironment();
const app = express();
const drafts: { readonly from: string; readonly text: string }[] = [];

app.get(
  '/recipes',
  requireUser(auth).handle((request, response) => response.json({ reader: request.auth.email, drafts })),
);

app.post('/drafts', requireApp(auth), express.json(), (request, response) => {
  const { text } = request.body as { text: string };
  drafts.push({ from: getPrincipal(request, 'app').caller, text });
  response.status(201).json({ number: drafts.length });
});

app.get('/languages', requireUser(auth), async (request, response) => {
  const headers = { 'X-Platform-App-Id': OCR_APP_ID, 'X-Platform-App-Key': OCR_APP_KEY };
  const answer = await fetch(`${OCR_URL}/languages`, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(
    () => undefined,
  );
  if (answer?.ok) response.json(await answer.json());
  else response.status(502).json({ error: `ocr answered ${answer?.status ?? 'nothing'} to the key of recipes` });
});

app.listen(Number(PORT), '127.0.0.1');
