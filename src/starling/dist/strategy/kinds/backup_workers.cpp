#include "starling/dist/strategy/backup_workers.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {

void register_strategy_backup_workers(StrategyKinds& kinds) {
  add_strategy<BackupWorkers, BackupWorkersOptions>(
      kinds, "backup_workers", "synchronous, but a step waits for the first few workers only and drops the rest");
}

}  // namespace starling::dist
