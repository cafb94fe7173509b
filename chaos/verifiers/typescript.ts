// A service that embeds the TypeScript verifier, reduced to its verdicts: for each question on a line of stdin it
// writes the status that its guard would answer. The variables that `platform-auth init` writes configure it.
import { createInterface } from 'node:readline';
import { RefusedError, UnavailableError, Verifier } from '../../clients/typescript/src/index.js';
import type { VerifierAnswer, VerifierQuestion } from './protocol.js';

const verifier = Verifier.fromEnvironment();

async function answer({ id, door, headers, member }: VerifierQuestion): Promise<VerifierAnswer> {
  const request = { headers };
  try {
    if (door === 'app') await verifier.verifyApp(request, { scope: headers['x-platform-scope'] });
    else if (door === 'node') await verifier.verifyNode(request);
    else if (member) await verifier.verifyMember(request, member);
    else await verifier.verifyUser(request);
    return { id, status: 200, code: '' };
  } catch (error) {
    if (error instanceof RefusedError || error instanceof UnavailableError)
      return { id, status: error.status, code: error.code };
    return { id, status: 500, code: String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  void answer(JSON.parse(line) as VerifierQuestion).then((verdict) => console.log(JSON.stringify(verdict)));
}
verifier.close();
