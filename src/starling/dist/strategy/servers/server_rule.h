#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/ps/clock.h"
#include "starling/dist/ps/coordinator.h"
#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {

// Most steps whose gradients are added up to one push, which names the portions of all of them.
inline constexpr double kMostKept = 4096;

// Rhythm of the weights whose names match a pattern ('*': any text).
struct LayerRhythm {
  std::string name{};
  std::int64_t every = 1;
  static Settings settings();
};

// Strategy over parameter servers, as a composition of three choices.
struct ServerRule {
  // Time: how far a read may be behind (ps/clock.h), and how pushes of one clock become updates.
  std::int64_t bound = ps::kUnbounded;
  ps::Merge merge = ps::Merge::each;
  std::int64_t backups = 0;  // merge mean: workers that an update need not wait for

  // Amount exchanged: gradients of n_push steps are added up before they are pushed; weights are fetched before every
  // n_fetch-th step, and in between a worker descends by itself.
  std::int64_t n_push = 1;
  std::int64_t n_fetch = 1;
  std::vector<LayerRhythm> layers{};  // both at once for single weights: the first that matches

  // Wire form of pushes. What a worker does not send it keeps, until a settling.
  CodecChoice codec{};

  // Share of the work: a portion of the data goes to any idle worker, or (in_turn) worker w makes its part of every
  // step. The first `warm` portions are made by one worker alone.
  bool in_turn = false;
  std::int64_t warm = 0;

  // A procedure of the leader's instead of steps of an optimizer: workers add up the gradient of all samples, of which
  // each makes so many portions an evaluation, if all are equally fast.
  std::optional<ps::CoordinatorOptions> procedure{};
  std::int64_t portions = 16;
  // Portions that all samples are cut into, none of them empty.
  std::int64_t pieces(int workers, std::int64_t samples) const { return std::min(workers * portions, samples); }

  // True if the others go on without a worker that is lost.
  bool goes_on() const { return !in_turn || backups > 0; }
  ps::ClockOptions clock(int workers) const;
};

// Maker of a strategy over servers: a StrategyMaker that can be asked for its rule.
struct ServerMaker {
  std::string name;
  ServerRule rule;
  std::shared_ptr<RankStrategy> operator()(std::shared_ptr<Comm> comm) const;
};
std::optional<ServerRule> server_rule(const StrategyMaker& maker);  // none: the strategy has no servers

// The option `codec` of a strategy over servers.
template <class Options>
Setting codec_setting(CodecChoice Options::*codec) {
  return setting("codec", codec,
                 "wire form of the gradients that are pushed, by its name or with options, {name: top_k, share: 0.01}");
}

// Registers a strategy whose options have `ServerRule rule() const`.
template <class Options>
void add_server_strategy(StrategyKinds& kinds, const std::string& name, const std::string& doc) {
  kinds.add<Options>(name, doc, [name](const Options& options) -> StrategyMaker {
    return ServerMaker{name, options.rule()};
  });
}

}  // namespace starling::dist
