import { postgresKilled, standbyPromoted, connectionsCut, blackHole, slowNetwork } from './scenarios/database.js';
import { failoverReusesIds, failoverReusesIdsWithGrace, restored } from './scenarios/failovers.js';
import { bulkChange, poolExhausted } from './scenarios/locks.js';
import { replicaKilled, replicaPaused, replicasSwitched, rollingRestart, eightReplicas } from './scenarios/replicas.js';
import { answerLost } from './scenarios/answer-lost.js';
import { verifiersCut, verifiersPaused } from './scenarios/verifiers.js';
import { keysRotated } from './scenarios/keys-rotated.js';
import { clockJumps, postgresClock, wrongClock } from './scenarios/clocks.js';
import { diskFull, readOnly } from './scenarios/storage.js';
import { loggingService } from './scenarios/logging-service.js';
import { loginFlood } from './scenarios/login-flood.js';
import type { Scenario } from './stage.js';

/** All scenarios, in the order in which they run. */
export const scenarios: readonly Scenario[] = [
  postgresKilled,
  standbyPromoted,
  failoverReusesIds,
  failoverReusesIdsWithGrace,
  restored,
  bulkChange,
  connectionsCut,
  blackHole,
  slowNetwork,
  poolExhausted,
  replicaKilled,
  answerLost,
  replicaPaused,
  replicasSwitched,
  verifiersCut,
  verifiersPaused,
  keysRotated,
  rollingRestart,
  eightReplicas,
  clockJumps,
  wrongClock,
  postgresClock,
  diskFull,
  readOnly,
  loggingService,
  loginFlood,
];
