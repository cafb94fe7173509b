/** The storeys of docs/architecture.md from the ground up, and within each its rooms from the ground up. */
const STOREYS = {
  foundation: [
    ['common'],
    ['config'],
    ['crypto', 'database', 'logging'],
    ['problems', 'embedded-postgres'],
    ['access', 'throttling'],
    ['http'],
    ['metrics'],
  ],
  domain: [
    ['challenges'],
    ['revocation', 'webauthn'],
    ['audit'],
    ['events'],
    ['keys', 'signing-keys', 'passwords', 'mail'],
    ['tokens', 'app-credentials', 'nodes', 'operators'],
    ['delegation', 'households'],
    ['users'],
    ['second-factors'],
    ['maintenance'],
    ['status'],
  ],
  api: [['health', 'well-known', 'nodes'], ['account', 'internal'], ['households'], ['auth', 'recovery', 'admin']],
};

/** A file imports its own room and rooms of lower floors. */
const FLOORS = [
  ...Object.entries(STOREYS).flatMap(([storey, floors]) =>
    floors.map((rooms) => rooms.map((room) => `${storey}/${room}`)),
  ),
  ['console', 'cli'],
  ['app.module.ts'],
  ['bootstrap'],
  ['main.ts'],
];

const toPattern = (rooms) => `^src/(${rooms.join('|').replaceAll('.', '\\.')})(/|$)`;

const floorRules = FLOORS.flatMap((rooms, floor) =>
  rooms.map((room) => ({
    name: `${room.replace('/', '-')}-imports-downwards`,
    severity: 'error',
    from: { path: toPattern([room]) },
    to: { path: '^src/', pathNot: toPattern([room, ...FLOORS.slice(0, floor).flat()]) },
  })),
);

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    {
      name: 'a-room-has-a-floor',
      severity: 'error',
      from: {},
      to: { path: '^src/', pathNot: toPattern(FLOORS.flat()) },
    },
    ...floorRules,
    { name: 'no-cycle-of-files', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-cycle-of-rooms', severity: 'error', scope: 'folder', from: { path: '^src/' }, to: { circular: true } },
    {
      name: 'only-crypto-uses-cryptography',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(foundation/crypto|domain/passwords)/' },
      to: { path: '^(node:)?crypto$|node_modules/(bcrypt|bcryptjs|argon2|hash-wasm|jsonwebtoken|jose|@noble)/' },
    },
    {
      name: 'service-and-verifier-share-only-packages',
      severity: 'error',
      from: { path: '^(src|packages/[^/]+/src|clients/typescript/src)/' },
      to: { path: '^(src|clients)/', pathNot: '^$1/' },
    },
    { name: 'no-unresolved-import', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'require', 'node', 'default'] },
  },
};
