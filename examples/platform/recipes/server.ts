// A service that keeps recipes: users read them, ocr adds drafts, and a camera in the kitchen takes photos for the people of
// its household. Its environment is the file that `init` wrote.
import express from 'express';
import { Verifier } from '@platform-auth/verifier';
import { getPrincipal, requireApp, requireMember, requireNode, requireUser } from '@platform-auth/verifier/express';

const TIMEOUT_MS = 5_000;
const { PORT, OCR_URL = '', OCR_APP_ID = '', OCR_APP_KEY = '' } = process.env;

const auth = Verifier.fromEnvironment();
const app = express();
/** The household of each camera, as it was when the camera called last. */
const cameras = new Map<string, string>();
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

app.put(
  '/camera',
  requireNode(auth).handle((request, response) => {
    const { nodeId, householdId } = request.auth;
    cameras.set(nodeId, householdId);
    response.json({ camera: nodeId });
  }),
);

// Looks up the household of the camera: one that the caller stated would prove nothing.
app.post(
  '/cameras/:id/photos',
  requireMember(auth, { household: (request) => cameras.get(String(request.params.id)) }).handle((request, response) =>
    response.json({ photo_of: request.params.id, taken_by: request.auth.email }),
  ),
);

app.listen(Number(PORT), '127.0.0.1');
