import { CLI, EXAMPLE, ROOT } from './paths.js';

export const USER = { email: 'alice@example.org', password: 'correct horse battery' };
/** A user of another household. */
export const NEIGHBOUR = { email: 'bob@example.org', password: 'another horse battery' };
export const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';

export interface Started {
  /** Addresses by the name of the service. */
  readonly urls: Readonly<Record<string, string>>;
  /** Relative to the root of the project. */
  readonly folder: string;
  readonly nodeId: string;
  /** Of the key with which recipes calls ocr. */
  readonly appId: string;
  readonly hasPython: boolean;
}

/** A command that puts an access token into a variable. */
const logIn = (name: string, person: object): string =>
  `${name}=$(curl -s $AUTH_URL/api/v0/auth/login -H 'Content-Type: application/json' -d '${JSON.stringify(person)}'` +
  ` | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')`;

/** What to type, under headings that end with a colon. No secret is printed: the commands read the files. */
export function describeCommands({ urls, folder, nodeId, appId, hasPython }: Started): string {
  const authorization = '-H "Authorization: Bearer $TOKEN"';
  const photo = `curl -s $OCR_URL/photos -H "X-API-Key: $NODE_ID:$API_KEY" -d pancakes`;
  const photograph = 'curl -s -X POST $RECIPES_URL/cameras/$NODE_ID/photos';
  const admin = `export ADMIN_API_KEY=$(sed -n 's/^ADMIN_API_KEY=//p' ${folder}/env/auth.env)`;
  const exported = Object.entries(urls).map(([name, url]) => `${name.toUpperCase()}_URL=${url}`);
  const revoke = (words: string): string => `node ${CLI} ${words}`;
  const watched = hasPython ? photo : `curl -s $RECIPES_URL/recipes ${authorization}`;
  const watch = watched.replace('curl -s', "curl -s -o /dev/null -w '%{http_code} '");
  const needsOcr: [string, string[]][] = [
    ['A node calls ocr (Python), which calls recipes (TypeScript) with its own key:', [photo]],
    [
      'A user calls recipes (TypeScript), which calls ocr (Python) with its own key:',
      [`curl -s $RECIPES_URL/languages ${authorization}`],
    ],
    ['Revoke the node:', [revoke(`nodes revoke ${nodeId} --yes`)]],
    ['Revoke the key with which recipes calls ocr:', [revoke(`apps revoke ${appId} --yes`)]],
  ];
  const sections: [string, string[]][] = [
    [
      'In another terminal, first:',
      [
        `cd '${ROOT}'`,
        `export ${exported.join(' ')}`,
        `. ${folder}/camera.env`,
        logIn('TOKEN', USER),
        logIn('NEIGHBOURS_TOKEN', NEIGHBOUR),
      ],
    ],
    ['A user calls recipes (TypeScript):', [`curl -s $RECIPES_URL/recipes ${authorization}`]],
    ['A node calls recipes:', [`curl -s -X PUT $RECIPES_URL/camera -H "X-API-Key: $NODE_ID:$API_KEY"`]],
    ['A user commands a node of their household:', [`${photograph} ${authorization}`]],
    ['A user of another household is refused:', [`${photograph} -H "Authorization: Bearer $NEIGHBOURS_TOKEN"`]],
    ...(hasPython ? needsOcr.slice(0, 2) : []),
    ['Watch a call, and revoke in a third terminal:', [`while sleep 0.5; do ${watch}; done`]],
    ['In the third terminal, first:', [`cd '${ROOT}'`, `export AUTH_URL=${urls.auth ?? ''}`, admin]],
    ['Remove the user from the household:', [revoke(`households remove-member ${HOUSEHOLD} ${USER.email}`)]],
    ...(hasPython ? needsOcr.slice(2) : []),
    ['End the sessions of the user:', [revoke(`users revoke-sessions ${USER.email}`)]],
  ];
  const text = sections.map(([title, lines]) => [title, ...lines.map((line) => `    ${line}`)].join('\n'));
  return `${text.join('\n\n')}\n\n${EXAMPLE}/README.md explains what you see.`;
}
