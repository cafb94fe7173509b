/** The floors of docs/architecture.md, from the ground up. An import goes to a lower floor or stays on its own. */
const FLOORS = [
  ['common', 'config'],
  [
    'problems',
    'access',
    'audit',
    'crypto',
    'database',
    'embedded-postgres',
    'http',
    'keys',
    'logging',
    'mail',
    'metrics',
    'passwords',
    'revocation',
    'signing-keys',
    'throttling',
  ],
  ['users', 'tokens', 'app-credentials', 'nodes', 'operators', 'health'],
  ['second-factors'],
  ['auth', 'account', 'recovery', 'admin', 'internal', 'verifiers', 'maintenance', 'cli'],
  ['bootstrap', 'app.module.ts', 'main.ts'],
];
/** Rooms of these floors serve each other, without cycles. Rooms of the floors above do not know their neighbours. */
const SHARED_FLOORS = [0, 1, 5];

const toPattern = (rooms) => `^src/(${rooms.join('|').replaceAll('.', '\\.')})(/|$)`;

const floorRules = FLOORS.map((rooms, floor) => ({
  name: `floor-${floor}-imports-downwards`,
  severity: 'error',
  from: { path: toPattern(rooms) },
  to: { path: '^src/', pathNot: toPattern(FLOORS.slice(0, floor + 1).flat()) },
}));

const neighbourRules = FLOORS.filter((_rooms, floor) => !SHARED_FLOORS.includes(floor)).flatMap((rooms) =>
  rooms.map((room) => ({
    name: `${room}-imports-no-neighbour`,
    severity: 'error',
    from: { path: toPattern([room]) },
    to: { path: toPattern(rooms.filter((other) => other !== room)) },
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
    ...neighbourRules,
    { name: 'no-cycle-of-files', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-cycle-of-rooms', severity: 'error', scope: 'folder', from: { path: '^src/' }, to: { circular: true } },
    {
      name: 'only-crypto-uses-cryptography',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(crypto|passwords)/' },
      to: { path: '^(node:)?crypto$|node_modules/(bcrypt|bcryptjs|argon2|hash-wasm|jsonwebtoken|jose|@noble)/' },
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
