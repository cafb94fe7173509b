// A service that keeps recipes: users read them, ocr adds drafts and reads photos for a user, and a camera in the kitchen
// takes photos for the people of its household. Its environment is the file that `init` wrote.
import express, { type NextFunction, type Request, type Response } from 'express';
import { VerificationError, Verifier } from '@platform-auth/verifier';
import { getPrincipal, requireApp, requireMember, requireNode, requireUser } from '@platform-auth/verifier/express';
import { favourites, followDeletions } from './favourites.js';

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

app.put(
  '/favourites/:recipe',
  requireUser(auth).handle((request, response) => {
    const { userId } = request.auth;
    const mine = new Set(favourites.get(userId)).add(String(request.params.recipe));
    favourites.set(userId, mine);
    response.json({ favourites: [...mine] });
  }),
);

app.post('/drafts', requireApp(auth), express.json(), (request, response) => {
  const { text } = request.body as { text: string };
  drafts.push({ from: getPrincipal(request, 'app').caller, text });
  response.status(201).json({ number: drafts.length });
});

app.get('/languages', requireUser(auth), async (request, response) => {
  await sendAnswer(response, '/languages', { 'X-Platform-App-Id': OCR_APP_ID, 'X-Platform-App-Key': OCR_APP_KEY });
});

// With the user's own token ocr could do at every service what the user can; with this one it can read texts.
app.get('/texts/latest', requireUser(auth), async (request, response) => {
  const token = await auth.tokenFor(request, 'ocr', { scope: 'texts:read' });
  await sendAnswer(response, '/texts/latest', { Authorization: `Bearer ${token}` });
});

async function sendAnswer(response: Response, path: string, headers: Record<string, string>): Promise<void> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const answer = await fetch(OCR_URL + path, { headers, signal }).catch(() => undefined);
  if (answer?.ok) response.json(await answer.json());
  else response.status(502).json({ error: `ocr answered ${answer?.status ?? 'nothing'} to recipes` });
}

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

// What `tokenFor` throws: 401 when the token of the user has ended, else 503.
app.use((error: unknown, _request: Request, response: Response, next: NextFunction) => {
  if (error instanceof VerificationError) {
    const { status, headers, body } = error.toResponse();
    response.status(status).set(headers).json(body);
  } else {
    next(error);
  }
});

app.listen(Number(PORT), '127.0.0.1');
void followDeletions(auth);
