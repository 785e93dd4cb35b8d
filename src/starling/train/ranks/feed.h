#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/data/loader.h"
#include "starling/train/ranks/link.h"

namespace starling {

// The batches of a run as its steps take them. On one rank, and on data sets that can be asked by number, they are the
// loader's. Ranks that read a stream each have shards of their own, and some run out before others: they vote before
// every batch, and the epoch ends for all when nobody has anything left. Programs over all rows want them cut evenly:
// where shards left them otherwise, the ranks share the rows of that batch out anew.
class RankFeed {
 public:
  RankFeed(Loader& loader, RankLink* link);

  // The next batch, with no rows here where only others have some; null where the epoch ends for all. Valid until the
  // next call.
  const Batch* next();
  DataPosition position() const;  // of all ranks together

  // For checkpoints, collective. restore() returns what the user should know, where it cannot go on exactly.
  nlohmann::json state();
  std::string restore(const nlohmann::json& state, DataPosition position);

 private:
  const Batch* vote();
  bool cut_evenly(const std::vector<std::int64_t>& rows, std::int64_t total) const;
  void share_out(const Batch* own, const std::vector<std::int64_t>& rows);

  Loader& loader_;
  RankLink* link_;
  bool votes_;
  bool ended_ = false;  // this rank's part of the epoch
  DataPosition position_{};
  Batch batch_{};
};

}  // namespace starling
