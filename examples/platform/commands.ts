import { CLI, EXAMPLE, ROOT } from './paths.js';

export const USER = { email: 'alice@example.org', password: 'correct horse battery' };
/** A user of another household. */
export const NEIGHBOUR = { email: 'bob@example.org', password: 'another horse battery' };
export const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';

interface Started {
  /** Addresses by the name of the service. */
  readonly urls: Readonly<Record<string, string>>;
  /** Relative to the root of the project. */
  readonly folder: string;
  readonly nodeId: string;
  /** Of the key with which recipes calls ocr. */
  readonly appId: string;
  readonly hasPython: boolean;
  readonly hasGo: boolean;
}

/** A command that puts an access token into a variable. */
const logIn = (name: string, person: object): string =>
  `${name}=$(curl -s $AUTH_URL/api/v0/auth/login -H 'Content-Type: application/json' -d '${JSON.stringify(person)}'` +
  ` | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')`;

type Section = readonly [title: string, commands: readonly string[]];

const AUTHORIZATION = '-H "Authorization: Bearer $TOKEN"';
const NEIGHBOURS_AUTHORIZATION = '-H "Authorization: Bearer $NEIGHBOURS_TOKEN"';
const PHOTO = 'curl -s $OCR_URL/photos -H "X-API-Key: $NODE_ID:$API_KEY" -d pancakes';
const PHOTOGRAPH = 'curl -s -X POST $RECIPES_URL/cameras/$NODE_ID/photos';
const READ_RECIPES = `curl -s $RECIPES_URL/recipes ${AUTHORIZATION}`;

/** What to type, under headings that end with a colon. No secret is printed: the commands read the files. */
export function describeCommands(started: Started): string {
  const { urls, folder, hasPython } = started;
  const admin = `export ADMIN_API_KEY=$(sed -n 's/^ADMIN_API_KEY=//p' ${folder}/env/auth.env)`;
  const exported = Object.entries(urls).map(([name, url]) => `${name.toUpperCase()}_URL=${url}`);
  const watched = (hasPython ? PHOTO : READ_RECIPES).replace('curl -s', "curl -s -o /dev/null -w '%{http_code} '");
  const sections: Section[] = [
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
    ...describeCalls(started),
    ['Watch a call, and revoke in a third terminal:', [`while sleep 0.5; do ${watched}; done`]],
    ['In the third terminal, first:', [`cd '${ROOT}'`, `export AUTH_URL=${urls.auth ?? ''}`, admin]],
    ...describeRevocations(started).map(([title, words]): Section => [title, [`node ${CLI} ${words}`]]),
  ];
  const text = sections.map(([title, lines]) => [title, ...lines.map((line) => `    ${line}`)].join('\n'));
  return `${text.join('\n\n')}\n\n${EXAMPLE}/README.md explains what you see.`;
}

function describeCalls({ hasPython, hasGo }: Started): Section[] {
  const sections: Section[] = [
    ['A user calls recipes (TypeScript):', [READ_RECIPES]],
    ['A node calls recipes:', ['curl -s -X PUT $RECIPES_URL/camera -H "X-API-Key: $NODE_ID:$API_KEY"']],
    ['A user commands a node of their household:', [`${PHOTOGRAPH} ${AUTHORIZATION}`]],
    ['A user of another household is refused:', [`${PHOTOGRAPH} ${NEIGHBOURS_AUTHORIZATION}`]],
    [
      'The neighbour has a favourite recipe, which recipes keeps:',
      [`curl -s -X PUT $RECIPES_URL/favourites/pancakes ${NEIGHBOURS_AUTHORIZATION}`],
    ],
  ];
  if (hasPython)
    sections.push(
      ['A node calls ocr (Python), which calls recipes (TypeScript) with its own key:', [PHOTO]],
      [
        'A user calls recipes (TypeScript), which calls ocr (Python) with its own key:',
        [`curl -s $RECIPES_URL/languages ${AUTHORIZATION}`],
      ],
    );
  if (hasGo)
    sections.push([
      'A user calls recipes, which calls ocr on behalf of the user, which calls documents (Go) on behalf of the user:',
      [`curl -s $RECIPES_URL/texts/latest ${AUTHORIZATION}`],
    ]);
  return sections;
}

/** @returns headings with the words for `platform-auth` */
function describeRevocations({ nodeId, appId, hasPython, hasGo }: Started): [title: string, words: string][] {
  const sections: [string, string][] = [
    ['Remove the user from the household:', `households remove-member ${HOUSEHOLD} ${USER.email}`],
  ];
  if (hasPython) sections.push(['Revoke the node:', `nodes revoke ${nodeId} --yes`]);
  if (hasGo)
    sections.push([
      'Let recipes act for users at ocr no more (the middle link):',
      `apps update ${appId} --for-users no`,
    ]);
  if (hasPython) sections.push(['Revoke the key with which recipes calls ocr:', `apps revoke ${appId} --yes`]);
  sections.push(
    ['End the sessions of the user:', `users revoke-sessions ${USER.email}`],
    [
      'Delete the neighbour (a few seconds later recipes says here what it has deleted):',
      `users delete ${NEIGHBOUR.email} --yes`,
    ],
  );
  return sections;
}
