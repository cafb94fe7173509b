import { postgresKilled } from './scenarios/postgres-killed.js';
import { standbyPromoted } from './scenarios/standby-promoted.js';
import { failoverReusesIds, failoverReusesIdsWithGrace } from './scenarios/failover-reuses-ids.js';
import { bulkChange } from './scenarios/bulk-change.js';
import { restored } from './scenarios/restored.js';
import { connectionsCut } from './scenarios/connections-cut.js';
import { blackHole } from './scenarios/black-hole.js';
import { slowNetwork } from './scenarios/slow-network.js';
import { poolExhausted } from './scenarios/pool-exhausted.js';
import { replicaKilled } from './scenarios/replica-killed.js';
import { answerLost } from './scenarios/answer-lost.js';
import { replicaPaused } from './scenarios/replica-paused.js';
import { replicasSwitched } from './scenarios/replicas-switched.js';
import { verifiersCut } from './scenarios/verifiers-cut.js';
import { verifiersPaused } from './scenarios/verifiers-paused.js';
import { keysRotated } from './scenarios/keys-rotated.js';
import { rollingRestart } from './scenarios/rolling-restart.js';
import { eightReplicas } from './scenarios/eight-replicas.js';
import { clockJumps } from './scenarios/clock-jumps.js';
import { wrongClock } from './scenarios/wrong-clock.js';
import { diskFull } from './scenarios/disk-full.js';
import { readOnly } from './scenarios/read-only.js';
import { loggingService } from './scenarios/logging-service.js';
import { loginFlood } from './scenarios/login-flood.js';
import type { Scenario } from './stage.js';

/** In the order in which they run. */
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
  diskFull,
  readOnly,
  loggingService,
  loginFlood,
];
