#include "starling/train/ranks/feed.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "starling/base/error.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/tensor/bytes.h"

namespace starling::train {
namespace {

std::int64_t row_bytes(const TensorType& sample) { return static_cast<std::int64_t>(bytes_of(sample)); }

Tensor rows_like(const TensorType& sample, std::int64_t rows) {
  Shape shape = sample.shape;
  shape.insert(0, rows);
  return empty(shape, sample.dtype);
}

}  // namespace

RankFeed::RankFeed(Loader& loader, RankLink* link)
    : loader_(loader),
      link_(link),
      votes_(loader.streams() && link != nullptr && link->size() > 1),
      position_(loader.position()) {}

data::DataPosition RankFeed::position() const { return votes_ ? position_ : loader_.position(); }

const Batch* RankFeed::next() { return votes_ ? vote() : loader_.next(); }

const Batch* RankFeed::vote() {
  const Batch* own = ended_ ? nullptr : loader_.next();
  ended_ = own == nullptr;
  const auto rows = link_->gather(own ? own->size : 0);
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (total == 0) {
    ended_ = false;
    position_ = {position_.epoch + 1, 0};
    return nullptr;
  }
  batch_.begin = position_;
  batch_.total = total;
  position_.sample += total;
  if (link_->strategy().global_program() && !cut_evenly(rows, total)) {
    share_out(own, rows);
    return &batch_;
  }
  batch_.size = own ? own->size : 0;
  batch_.fields.clear();
  for (std::size_t f = 0; f < loader_.fields().size(); ++f)
    batch_.fields.push_back(own ? own->fields[f] : rows_like(loader_.fields()[f], 0));
  return &batch_;
}

bool RankFeed::cut_evenly(const std::vector<std::int64_t>& rows, std::int64_t total) const {
  const dist::RankStrategy& strategy = link_->strategy();
  const int members = link_->size() / strategy.groups();
  for (int rank = 0; rank < link_->size(); ++rank) {
    const Piece group = piece_of(total, rank / members, strategy.groups());
    graph::PassContext cut;
    cut.world = members;
    cut.rank = rank % members;
    cut.shards = strategy.shards();
    if (rows_of(group.size, cut).size != rows[static_cast<std::size_t>(rank)]) return false;
  }
  return true;
}

// Gathers all rows in rank order, and keeps this rank's even share.
void RankFeed::share_out(const Batch* own, const std::vector<std::int64_t>& rows) {
  const Piece mine = link_->strategy().rows(batch_.total);
  batch_.size = mine.size;
  batch_.fields.clear();
  for (std::size_t f = 0; f < loader_.fields().size(); ++f) {
    const TensorType& sample = loader_.fields()[f];
    const Tensor all = rows_like(sample, batch_.total);
    link_->gather_rows(own ? data::host_bytes(own->fields[f]).data() : nullptr, all.raw(), rows, row_bytes(sample));
    const Tensor kept = rows_like(sample, mine.size);
    const auto bytes = static_cast<std::size_t>(mine.size * row_bytes(sample));
    if (bytes > 0) std::memcpy(kept.raw(), data::host_bytes(all).data() + mine.begin * row_bytes(sample), bytes);
    batch_.fields.push_back(kept);
  }
}

nlohmann::json RankFeed::state() {
  if (!votes_) return loader_.state();
  const nlohmann::json own = {{"ended", ended_}, {"loader", ended_ ? nlohmann::json() : loader_.state()}};
  nlohmann::json ranks = nlohmann::json::array();
  for (const auto& text : link_->gather(own.dump())) ranks.push_back(nlohmann::json::parse(text));
  return {{"ranks", ranks}};
}

std::string RankFeed::restore(const nlohmann::json& state, data::DataPosition position) {
  const std::size_t before = state.contains("ranks") && state.at("ranks").is_array() ? state.at("ranks").size() : 1;
  const auto now = static_cast<std::size_t>(votes_ ? link_->size() : 1);
  if (!loader_.streams() || (before == 1 && now == 1)) {
    loader_.restore(state);
    return {};
  }
  position_ = position;
  ended_ = false;
  if (before != now) {
    position_.sample = 0;
    loader_.seek(position_);
    return fmt::format("the shards were read by {} ranks and are now by {}: epoch {} starts over", before, now,
                       position.epoch + 1);
  }
  const nlohmann::json& own = state.at("ranks").at(static_cast<std::size_t>(link_->rank()));
  ended_ = own.at("ended").get<bool>();
  if (ended_) {
    loader_.seek({position.epoch + 1, 0});
  } else {
    loader_.restore(own.at("loader"));
  }
  return {};
}

}  // namespace starling::train
