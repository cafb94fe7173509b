/** What is measured, by the name under which it is printed and chosen with `--only`. */
export const NAMES = {
  http: 'bare node:http',
  nest: 'bare Nest + Express',
  stock: 'stock Nest + Express + passport-headerapikey + nestjs-pino',
  stockFlags: "stock, with the service's flags of Node.js",
  node: 'validate-node',
  app: 'validate-app',
  nodeOff: 'validate-node, memory off',
  pgHttp: 'its query through pg, behind node:http',
  pg: 'its query through pg alone',
  users: 'users/{id} (bearer)',
  usersAlone: 'its statements and signature alone',
  refresh: 'refresh',
  refreshAlone: 'its statements and signatures alone',
  login: 'login (bcrypt, cost 12)',
  bcrypt: 'raw bcrypt on all cores',
  live: 'health/live',
} as const;
