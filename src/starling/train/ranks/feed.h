#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/data/loading/loader.h"
#include "starling/train/ranks/link.h"

namespace starling::train {

// Batches of a run for its steps. With one rank, or map-style data, they are the loader's. Ranks that stream have their
// own shards, and some run out before others: ranks vote before every batch, and the epoch ends for all when none has
// data left. Programs over all rows need evenly split batches: if the shards are uneven, the ranks redistribute the
// rows of the batch.
class RankFeed {
 public:
  RankFeed(Loader& loader, RankLink* link);

  // The next batch; without rows here if only other ranks have some; null when the epoch ends for all. Valid until the
  // next call.
  const Batch* next();
  data::DataPosition position() const;                                // position over all ranks
  void seek(data::DataPosition position) { loader_.seek(position); }  // for a leader, who takes no batches

  // State for checkpoints; collective. restore() returns a message for the user if it cannot continue exactly.
  nlohmann::json state();
  std::string restore(const nlohmann::json& state, data::DataPosition position);

 private:
  const Batch* vote();
  bool cut_evenly(const std::vector<std::int64_t>& rows, std::int64_t total) const;
  void share_out(const Batch* own, const std::vector<std::int64_t>& rows);

  Loader& loader_;
  RankLink* link_;
  bool votes_;
  bool ended_ = false;  // the rank's part of the epoch has ended
  data::DataPosition position_{};
  Batch batch_{};
};

}  // namespace starling::train
