#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/ops/api/index.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/softmax.h"
#include "starling/zoo/nets/seq2seq.h"

namespace starling::zoo {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Beam {
  std::vector<std::int64_t> ids;
  double score = kNever;  // log-probability
  bool ended = false;
};

// One more id for one beam of a source.
struct Extension {
  double score;
  std::int64_t beam;
  std::int64_t id;
};

Tensor ids_tensor(const std::vector<std::int64_t>& ids, const Shape& shape) {
  Tensor made = empty(shape, DType::i64);
  std::copy(ids.begin(), ids.end(), made.data<std::int64_t>());
  return made;
}

// Best continuations of the beams of one source; a finished beam is kept as it is.
std::vector<Extension> best_extensions(const Beam* beams, std::int64_t count, const double* log_probs,
                                       std::int64_t vocabulary) {
  std::vector<Extension> all;
  for (std::int64_t b = 0; b < count; ++b) {
    if (beams[b].score == kNever) continue;
    if (beams[b].ended) {
      all.push_back({beams[b].score, b, Seq2Seq::kPadding});
      continue;
    }
    for (std::int64_t id = Seq2Seq::kEnd; id < vocabulary; ++id)
      all.push_back({beams[b].score + log_probs[b * vocabulary + id], b, id});
  }
  const auto keep = std::min<std::size_t>(all.size(), static_cast<std::size_t>(count));
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(keep), all.end(),
                    [](const Extension& a, const Extension& b) { return a.score > b.score; });
  all.resize(keep);
  return all;
}

Beam extended(const Beam& beam, const Extension& by) {
  Beam longer = beam;
  longer.score = by.score;
  if (by.id == Seq2Seq::kEnd) longer.ended = true;
  if (!longer.ended) longer.ids.push_back(by.id);
  return longer;
}

std::vector<Hypothesis> ranked(const Beam* beams, std::int64_t count, double penalty) {
  std::vector<Hypothesis> found;
  for (std::int64_t b = 0; b < count; ++b) {
    if (beams[b].score == kNever) continue;
    const double length = static_cast<double>(beams[b].ids.size()) + (beams[b].ended ? 1 : 0);
    found.push_back({beams[b].ids, beams[b].score / std::pow(std::max(1.0, length), penalty)});
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return found;
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(Seq2Seq& net, const Tensor& source, const BeamOptions& options) {
  check(options.beams >= 1, "[beam_search] expected at least 1 beam, got {}", options.beams);
  const NoGrad no_grad;
  const std::int64_t n = source.size(0), width = options.beams, rows = n * width;
  const std::int64_t vocabulary = net.options().target_vocabulary;
  std::vector<std::int64_t> copies;  // every source repeated once per beam
  for (std::int64_t row = 0; row < rows; ++row) copies.push_back(row / width);
  auto [memory, state] = net.encode(index_select(source, ids_tensor(copies, {rows}), 0));
  std::vector<Beam> beams(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < n; ++i) beams[static_cast<std::size_t>(i * width)].score = 0;
  std::vector<std::int64_t> previous(static_cast<std::size_t>(rows), Seq2Seq::kBegin);
  for (std::int64_t step = 0; step < net.options().target_tokens; ++step) {
    auto [logits, next] = net.decode(memory, state, ids_tensor(previous, {rows, 1}));
    const auto log_probs = log_softmax(reshape(logits, {rows, vocabulary})).to_vector();
    std::vector<Beam> longer(beams.size());
    std::vector<std::int64_t> parents = copies;
    bool all_ended = true;
    for (std::int64_t i = 0; i < n; ++i) {
      const Beam* own = beams.data() + i * width;
      const auto best = best_extensions(own, width, log_probs.data() + i * width * vocabulary, vocabulary);
      for (std::size_t b = 0; b < best.size(); ++b) {
        const std::size_t row = static_cast<std::size_t>(i * width) + b;
        longer[row] = extended(own[best[b].beam], best[b]);
        parents[row] = i * width + best[b].beam;
        previous[row] = best[b].id;
        all_ended = all_ended && longer[row].ended;
      }
    }
    beams = std::move(longer);
    if (all_ended) break;
    const Tensor from = ids_tensor(parents, {rows});
    state = {index_select(next.h, from, 1), index_select(next.c, from, 1)};
  }
  std::vector<std::vector<Hypothesis>> found;
  for (std::int64_t i = 0; i < n; ++i) found.push_back(ranked(beams.data() + i * width, width, options.length_penalty));
  return found;
}

}  // namespace starling::zoo
