#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "bind.h"
#include "checkpoints.h"
#include "convert.h"
#include "dense.h"
#include "interruptible.h"
#include "ranks.h"
#include "starling/base/error.h"
#include "starling/base/file/mapped_guard.h"
#include "starling/base/hash/hash.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/train/ranks/link.h"
#include "starling/train/run/copy_tensors.h"

// Checkpoints of a loop that every rank runs: rank 0 writes what is equal on all of them, what differs of each, and
// what is stored in pieces put together.
namespace starling::python {
namespace {

using nlohmann::json;

constexpr const char* kOfStrategy = "strategy/";  // tensors of the strategy's own

// Ranks whose strategy stores nothing, or who have none.
class PlainRanks final : public dist::RankStrategy {
 public:
  using dist::RankStrategy::RankStrategy;
  std::string name() const override { return "ranks"; }
};

std::shared_ptr<dist::RankStrategy> strategy_of(nb::handle given) {
  auto made = std::dynamic_pointer_cast<dist::RankStrategy>(strategy_from(given).strategy);
  return made ? made : std::make_shared<PlainRanks>(world_comm());
}

// Texts of users may be in any encoding.
std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

class RankCheckpoints {
 public:
  RankCheckpoints(const std::string& folder, int keep, nb::handle strategy)
      : name_(folder), folder_(folder, keep), strategy_(strategy_of(strategy)) {
    without_gil([&] { link_ = std::make_unique<train::RankLink>(strategy_); }, &strategy_->comm());
  }
  ~RankCheckpoints() {
    const nb::gil_scoped_release release;
    link_.reset();
  }
  RankCheckpoints(const RankCheckpoints&) = delete;

  bool in_pieces() const { return strategy_->sharded() != nullptr; }

  // `why`: what this rank could not do, which ends all of them; empty: nothing.
  std::string save(std::int64_t step, nb::dict tensors, const std::string& told, std::string why) {
    std::vector<NamedTensor> own;
    try {
      if (why.empty()) own = tensors_of(tensors);
    } catch (const std::exception& error) {
      why = error.what();
    }
    return without_gil([&] { return saved(step, own, told, why); }, &strategy_->comm());
  }

  // `own`: tensors of this rank by their names in the checkpoint, for those that are stored in pieces.
  nb::object load(std::optional<std::int64_t> step, nb::dict own, std::string why) {
    std::map<std::string, Tensor> pieces;
    for (auto [name, value] : own) {
      const Tensor tensor = to_tensor(value);
      if (is_piece(tensor)) pieces.emplace(nb::cast<std::string>(name), tensor);
    }
    const auto loaded = without_gil([&] { return loaded_state(step, pieces, why); }, &strategy_->comm());
    return loaded ? to_python(*loaded) : nb::none();
  }

  // Ends load(): every rank has put back its own.
  void done(std::int64_t step, const std::string& why) {
    without_gil(
        [&] {
          meet({{"doing", "load"}}, why);
          strategy_->restored(step);
        },
        &strategy_->comm());
  }

 private:
  bool is_piece(const Tensor& tensor) const {
    return strategy_->sharded() != nullptr && strategy_->sharded()->piece(tensor) != nullptr;
  }

  std::vector<NamedTensor> tensors_of(nb::dict tensors) const {
    std::vector<NamedTensor> own;
    for (auto [key, value] : tensors) {
      const std::string name = expect_text(key, "[checkpoints] expected names as keys");
      const Tensor tensor = to_tensor(value);
      check(is_piece(tensor) || tensor.impl()->storage || tensor.numel() == 0,
            "[checkpoints] expected the strategy whose ranks store pieces of '{}': Checkpoints(..., strategy=strategy)",
            name);
      own.push_back({name, is_piece(tensor) ? tensor : dense(tensor.detach())});
    }
    for (const auto& [name, tensor] : strategy_->tensors()) own.push_back({kOfStrategy + name, tensor});
    return own;
  }

  // All ranks come here for the same purpose; what one of them could not do is told to all.
  std::vector<json> meet(json own, const std::string& why) {
    own["why"] = why;
    own["folder"] = name_;
    std::vector<json> all;
    for (const std::string& text : link_->gather(dumped(own))) all.push_back(json::parse(text));
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      check(all[rank].at("why").get_ref<const std::string&>().empty(), "[checkpoints] rank {}: {}", rank,
            all[rank].at("why").get<std::string>());
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      for (const char* key : {"doing", "step", "folder"})
        check(all[rank].value(key, json()) == all[0].value(key, json()),
              "[checkpoints] expected the same {} on all ranks, got {} on rank 0 and {} on rank {}", key,
              dumped(all[0].value(key, json())), dumped(all[rank].value(key, json())), rank);
    }
    return all;
  }

  // Names in order, with what tells whether ranks hold the same.
  json described(const std::vector<NamedTensor>& tensors) const {
    json all = json::array();
    for (const auto& [name, tensor] : tensors) {
      std::string content = "pieces";
      if (!is_piece(tensor)) {
        Hash128 hash;
        const Tensor host = data::on_host(tensor);
        hash.update(data::host_bytes(host));
        content = hash.hex();
      }
      all.push_back({name, starling::to_string(tensor.type()), content});
    }
    return all;
  }

  std::string saved(std::int64_t step, const std::vector<NamedTensor>& own, const std::string& told,
                    const std::string& why) {
    const dist::RankProgress::Doing doing(link_->rank_progress(), "save");
    json mine = {{"doing", "save"}, {"step", step}};
    if (why.empty()) mine.update({{"tensors", described(own)}, {"told", json::parse(told)}});
    const std::vector<json> all = meet(std::move(mine), why);
    Checkpoint checkpoint;
    checkpoint.step = step;
    std::vector<json> states;
    for (const json& one : all) states.push_back(one.at("told"));
    keep_told(checkpoint, states);
    std::vector<NamedTensor> different = own;
    for (const json& one : all[0].at("tensors")) {
      if (!held_by_all(all, one)) continue;
      const auto& name = one.at(0).get_ref<const std::string&>();
      const auto at =
          std::find_if(different.begin(), different.end(), [&](const auto& each) { return each.name == name; });
      checkpoint.tensors.push_back(*at);
      different.erase(at);
    }
    json outcome;
    link_->lend(
        different, checkpoint, [&](const Checkpoint& made) { outcome = written(made); }, strategy_->sharded());
    outcome = json::parse(link_->broadcast(dumped(outcome)));
    if (outcome.contains("error")) throw Error(outcome.at("error").get<std::string>());
    return outcome.at("path");
  }

  // Whether every rank has the same in a tensor of rank 0.
  static bool held_by_all(const std::vector<json>& all, const json& one) {
    const bool shared = std::all_of(all.begin(), all.end(), [&](const json& rank) {
      const json& theirs = rank.at("tensors");
      return std::find(theirs.begin(), theirs.end(), one) != theirs.end();
    });
    check(shared || one.at(2).get_ref<const std::string&>() != "pieces",
          "[checkpoints] expected a piece of '{}' on every rank", one.at(0).get<std::string>());
    return shared;
  }

  json written(const Checkpoint& made) {
    if (!link_->leads()) return {};
    const dist::RankProgress::Uncounted writing(link_->rank_progress());
    try {
      return {{"path", folder_.save(made).value().string()}};
    } catch (const std::exception& error) {
      return {{"error", error.what()}};
    }
  }

  // Rank 0 reads, and tells all of them what it has found, or why not.
  std::optional<LoadedCheckpoint> found_by_first(std::optional<std::int64_t> step) {
    std::optional<LoadedCheckpoint> found;
    json told = json::object();
    if (link_->leads()) {
      const dist::RankProgress::Uncounted reading(link_->rank_progress());
      try {
        found = read_checkpoint(folder_, step);
      } catch (const std::exception& error) {
        told["error"] = error.what();
      }
    }
    told = json::parse(link_->broadcast(dumped(told)));
    if (told.contains("error")) throw Error(told.at("error").get<std::string>());
    std::optional<Checkpoint> own;
    if (found) own = std::move(found->checkpoint);
    own = link_->share(std::move(own));
    if (!own) return std::nullopt;
    return LoadedCheckpoint{std::move(*own), found ? found->skipped : std::vector<std::string>()};
  }

  std::optional<LoadedState> loaded_state(std::optional<std::int64_t> step, const std::map<std::string, Tensor>& pieces,
                                          const std::string& why) {
    const dist::RankProgress::Doing doing(link_->rank_progress(), "resume");
    meet({{"doing", "load"}, {"step", step ? json(*step) : json()}}, why);
    const auto found = found_by_first(step);
    if (!found) return std::nullopt;
    const Checkpoint& checkpoint = found->checkpoint;
    LoadedState loaded{.step = checkpoint.step, .told = told_of(checkpoint, link_->rank(), link_->size())};
    loaded.skipped = found->skipped;
    loaded.differences = differences_of(checkpoint);
    std::map<std::string, Tensor> own = pieces;
    for (const auto& [name, tensor] : strategy_->tensors()) own.emplace(kOfStrategy + name, tensor);
    for (const NamedTensor& saved : checkpoint.tensors) fetch(checkpoint, saved, own, loaded.tensors);
    return loaded;
  }

  // Bytes come from rank 0 to all, also to those that have no use for them.
  void fetch(const Checkpoint& checkpoint, const NamedTensor& saved, const std::map<std::string, Tensor>& own,
             std::vector<NamedTensor>& into) const {
    const KeptName kept = kept_name(saved.name);
    if (kept.rank && *kept.rank != link_->rank()) {
      checkpoint.fetch(saved, [](std::span<const std::byte>) { return true; });
      return;
    }
    const auto place = own.find(kept.name);
    const bool fits = place != own.end() && place->second.type() == saved.tensor.type();
    const Tensor to = fits ? place->second : empty(saved.tensor.shape(), saved.tensor.dtype());
    train::fetch_into(checkpoint, saved, to, strategy_->sharded());
    if (link_->leads() && saved.tensor.numel() > 0) check_mapped(saved.tensor.raw());
    if (!kept.name.starts_with(kOfStrategy)) into.push_back({kept.name, to});
  }

  std::string name_;
  CheckpointFolder folder_;
  std::shared_ptr<dist::RankStrategy> strategy_;
  std::unique_ptr<train::RankLink> link_;
};

}  // namespace

void bind_rank_checkpoints(nb::module_& m) {
  nb::class_<RankCheckpoints>(m, "RankCheckpoints", "Checkpoints of several ranks, made by all of them together.")
      .def(
          "__init__",
          [](RankCheckpoints* self, const std::string& folder, int keep, nb::handle strategy) {
            new (self) RankCheckpoints(folder, keep, strategy);
          },
          nb::arg("folder"), nb::arg("keep"), nb::arg("strategy").none())
      .def("save", &RankCheckpoints::save, nb::arg("step"), nb::arg("tensors"), nb::arg("told"), nb::arg("why"),
           "Writes a checkpoint whole or not at all; returns its folder.")
      .def("load", &RankCheckpoints::load, nb::arg("step").none(), nb::arg("own"), nb::arg("why"),
           "(step, tensors, told, skipped, differences) of the newest intact checkpoint, or None.")
      .def("done", &RankCheckpoints::done, nb::arg("step"), nb::arg("why"), "Every rank has put back its own.")
      .def_prop_ro("in_pieces", &RankCheckpoints::in_pieces, "Whether ranks store pieces of tensors.");
  m.def(
      "_several_ranks",
      [](nb::handle given) {
        const PyStrategy strategy = strategy_from(given);
        if (dynamic_cast<const dist::RankStrategy*>(strategy.strategy.get())) return true;
        const Comm* const comm = comm_of_thread();
        return comm != nullptr && comm->size() > 1;
      },
      nb::arg("strategy").none());
}

}  // namespace starling::python
