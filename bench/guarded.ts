// A service that embeds a verifier: `guarded.js` listens on PORT of loopback, with the variables that `platform-auth
// init` writes.
import express from 'express';
import { requireNode } from '../clients/typescript/src/express.js';
import { Verifier } from '../clients/typescript/src/verifier.js';

const ANSWER = { recipes: [{ id: 1, title: 'Soup' }] };
const app = express();
const verifier = Verifier.fromEnvironment();

app.get('/plain', (_request, response) => void response.json(ANSWER));
app.get('/guarded', requireNode(verifier), (_request, response) => void response.json(ANSWER));
app.listen(Number(process.env.PORT), '127.0.0.1');
