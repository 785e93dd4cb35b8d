// Rules for pieces: computing on pieces as a rule says and putting the results together gives the whole.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "ops/op_checks.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling::testing {
namespace {

// Part of a tensor on a rank that is split or whole.
Tensor part_of(const Tensor& whole, Layout layout, int part, int parts) {
  if (!layout.is_split()) return whole;
  const Piece piece = piece_of(whole.shape()[layout.dim], part, parts);
  return slice(whole, {.axis = layout.dim, .begin = piece.begin, .end = piece.begin + piece.size});
}

// One term of a sum whose other terms come to `rest` less it: of any sign, or, where there are no signs, a part of it.
double term_of(DType dtype, double rest, std::mt19937& random) {
  if (is_float(dtype)) return std::uniform_real_distribution(-2.0, 2.0)(random);
  const bool has_signs = dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
  if (has_signs) return static_cast<double>(std::uniform_int_distribution<std::int64_t>(-3, 3)(random));
  return static_cast<double>(std::uniform_int_distribution<std::int64_t>(0, static_cast<std::int64_t>(rest))(random));
}

// Terms of a partial sum: random ones, so that only what is linear passes.
std::vector<Tensor> terms_of(const Tensor& whole, int parts, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> terms;
  std::vector<double> rest = whole.to_vector();
  for (int part = 1; part < parts; ++part) {
    std::vector<double> term;
    for (auto& left : rest) {
      term.push_back(term_of(whole.dtype(), left, random));
      left -= term.back();
    }
    terms.push_back(from_doubles(term, whole.shape(), whole.dtype()));
  }
  terms.insert(terms.begin(), from_doubles(rest, whole.shape(), whole.dtype()));
  return terms;
}

// As in the partition pass: attributes that describe the result follow its piece.
Attrs local_attrs(Attrs attrs, const Tensor& whole, Layout layout, int part, int parts) {
  if (!layout.is_split()) return attrs;
  if (const auto* field = attrs.find("shape")) {
    Shape& shape = attrs.get<Shape>(*field);
    shape = whole.shape();
    shape[layout.dim] = piece_of(whole.shape()[layout.dim], part, parts).size;
  }
  return attrs;
}

Tensor reduced(std::span<const Tensor> parts, ReduceOp reduce) {
  Tensor all = parts[0];
  for (const auto& part : parts.subspan(1)) {
    if (reduce == ReduceOp::max) all = maximum(all, part);
    if (reduce == ReduceOp::min) all = minimum(all, part);
    if (reduce == ReduceOp::product) all = mul(all, part);
    if (reduce == ReduceOp::sum || reduce == ReduceOp::mean) all = add(all, part);
  }
  return reduce == ReduceOp::mean ? div(all, static_cast<double>(parts.size())) : all;
}

Tensor joined(std::span<const Tensor> parts, Layout layout) {
  if (layout.is_split()) return concat(parts, layout.dim);
  return layout.is_partial() ? reduced(parts, layout.reduce) : parts[0];
}

struct Given {
  const OpDef& op;
  const OpCase& sample;
  const Drawn& drawn;
  const TensorList& whole;
};

std::string told(const Given& given, const Layouts& layouts, int parts) {
  std::vector<std::string> names;
  for (const auto& layout : layouts) names.push_back(to_string(layout));
  return fmt::format("{} with operands {} over {} ranks", describe(given.op, given.sample), fmt::join(names, ", "),
                     parts);
}

bool is_whole(std::span<const Layout> layouts) {
  return std::all_of(layouts.begin(), layouts.end(), [](const Layout& layout) { return layout.is_replicate(); });
}

// Means of pieces are the whole's only if the pieces have one size.
bool is_even(const Given& given, const ShardRule& rule, int parts) {
  for (std::size_t i = 0; i < rule.in.size(); ++i) {
    if (rule.in[i].is_split() && given.drawn.in[i].shape()[rule.in[i].dim] % parts != 0) return false;
  }
  return true;
}

// Verdict on a rule: whether it kept something apart, and what is wrong with it; empty: nothing.
struct Verdict {
  bool kept = false;
  std::string wrong{};
};

// Operands of one rank, as the rule wants them.
TensorList operands_of(const Given& given, const ShardRule& rule, int part, int parts) {
  TensorList operands;
  for (std::size_t i = 0; i < rule.in.size(); ++i) {
    const Tensor& whole = given.drawn.in[i];
    operands.push_back(rule.in[i].is_partial()
                           ? terms_of(whole, parts, static_cast<unsigned>(i))[static_cast<std::size_t>(part)]
                           : part_of(whole, rule.in[i], part, parts));
  }
  return operands;
}

// Applies the op to pieces by its rule, and compares the outputs, put together, with the whole.
Verdict judge(const Given& given, const Layouts& layouts, int parts) {
  const auto& [op, sample, drawn, whole] = given;
  const Types in = types_of(drawn.span()), out = types_of({whole.data(), whole.size()});
  const ShardRule rule =
      op.shard({op, {in.data(), in.size()}, {out.data(), out.size()}, sample.attrs, {layouts.data(), layouts.size()}});
  if (rule.in.size() != in.size() || rule.out.size() != out.size()) return {true, "a rule of other operands"};
  if (is_whole({rule.in.data(), rule.in.size()})) {
    return {false, is_whole({rule.out.data(), rule.out.size()}) ? "" : "whole operands, but not results"};
  }
  if (rule.unfuse) return {true, op.decompose ? "" : "no parts to take the op apart into"};
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (rule.in[i].is_partial() && rule.in[i] != layouts[i] && rule.in[i] != Layout::partial())
      return {true, "only sums can be made terms of"};
  }
  std::vector<TensorList> made;
  for (int part = 0; part < parts; ++part) {
    const TensorList operands = operands_of(given, rule, part, parts);
    made.push_back(
        apply(op, {operands.data(), operands.size()}, local_attrs(sample.attrs, whole[0], rule.out[0], part, parts)));
  }
  for (std::size_t o = 0; o < whole.size(); ++o) {
    if (rule.out[o] == Layout::partial(ReduceOp::mean) && !is_even(given, rule, parts)) continue;
    std::vector<Tensor> pieces;
    for (const auto& part : made) pieces.push_back(part[o]);
    const double off = difference(joined(pieces, rule.out[o]), whole[o]);
    if (!(off <= 1e-11)) return {true, fmt::format("output {} as {} is off by {}", o, to_string(rule.out[o]), off)};
  }
  return {.kept = true};
}

// Why an op's rule is not tried here; empty: it is.
std::string reason_to_skip(const OpDef& op) {
  if (is_graph_only(op)) return "effects or bodies, which only graphs have";
  if (op.comm) return "exchanges, which go by the axis that they are of";
  if (op.measure) return "shapes that depend on values";
  if (op.random) return "noise of its place in the whole: two_axes_test.cpp";
  if (op.inputs.empty()) return "no operands";
  if (!op.shard) return op.decompose ? "no rule: taken apart" : "no rule: whole operands";
  if (op.name == "batch_norm_train") return "statistics of a piece, which is what local batch norm means";
  return "";
}

// Layouts of one operand: split along each dimension, also into fewer rows than there are ranks, and partial.
std::vector<Layout> layouts_of(const Shape& shape) {
  std::vector<Layout> all{Layout::partial()};
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] > 0) all.push_back(Layout::split(d));
  }
  return all;
}

// One operand at a time in every layout, all operands alike, and some random mixtures.
std::vector<Layouts> combinations(const OpCase& sample, std::mt19937& random) {
  std::vector<std::vector<Layout>> choices;
  for (const auto& in : sample.in) choices.push_back(layouts_of(in.shape));
  std::vector<Layouts> all;
  const auto whole = [&] {
    Layouts layouts;
    layouts.resize(sample.in.size());
    return layouts;
  };
  for (std::size_t i = 0; i < choices.size(); ++i) {
    for (const auto& layout : choices[i]) {
      all.push_back(whole());
      all.back()[i] = layout;
    }
  }
  if (choices.size() < 2) return all;
  for (const auto& layout : choices[0]) {
    all.push_back(whole());
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (std::find(choices[i].begin(), choices[i].end(), layout) != choices[i].end()) all.back()[i] = layout;
    }
  }
  for (int draw = 0; draw < 3; ++draw) {
    all.push_back(whole());
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const std::size_t pick = random() % (choices[i].size() + 1);
      if (pick > 0) all.back()[i] = choices[i][pick - 1];
    }
  }
  return all;
}

// True where a rank would be without rows of an op that refuses that: the partition pass gives it neutral results.
bool lacks_rows(const OpDef& op, const OpCase& sample, const Layouts& layouts, int parts) {
  if (!op.needs_elements) return false;
  return layouts[0].is_split() && sample.in[0].shape[layouts[0].dim] < parts;
}

struct Kept {
  int splits = 0, partials = 0;  // rules that kept something of an operand that was split, or partial
  int tried = 0;                 // combinations of layouts
  int without_rows = 0;          // and those that lacks_rows() left out
  std::vector<std::string> wrong{};
};

Kept check_op(const OpDef& op, int parts) {
  std::mt19937 random(7);
  Kept kept;
  for (const auto& sample : op.cases()) {
    const Drawn drawn = draw(sample, DType::f64);
    const TensorList whole = apply(op, drawn.span(), sample.attrs);
    const Given given{op, sample, drawn, whole};
    for (const auto& layouts : combinations(sample, random)) {
      if (lacks_rows(op, sample, layouts, parts)) {
        ++kept.without_rows;
        continue;
      }
      ++kept.tried;
      const auto is_split = [](const Layout& layout) { return layout.is_split(); };
      const bool split = std::any_of(layouts.begin(), layouts.end(), is_split);
      Verdict verdict;
      try {
        verdict = judge(given, layouts, parts);
      } catch (const Error& error) {
        verdict.wrong = error.what();
      }
      if (verdict.kept) ++(split ? kept.splits : kept.partials);
      if (!verdict.wrong.empty()) kept.wrong.push_back(told(given, layouts, parts) + ": " + verdict.wrong);
    }
  }
  return kept;
}

class ShardRules : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShardRules, ::testing::Values(2, 3, 4));

// An op whose rule makes everything whole first costs a collective wherever it meets pieces. How many there are is
// known: a rule that gives up, or one that has learned, changes the number.
TEST_P(ShardRules, PiecesMakeTheWhole) {
  std::set<std::string> gives_up, passes_terms;
  int ops = 0, tried = 0, without_rows = 0;
  for (const auto* op : tested_ops()) {
    if (!reason_to_skip(*op).empty()) continue;
    const Kept kept = check_op(*op, GetParam());
    for (const auto& wrong : kept.wrong) ADD_FAILURE() << wrong;
    if (kept.splits == 0) gives_up.insert(op->name);
    if (kept.partials > 0) passes_terms.insert(op->name);
    ++ops, tried += kept.tried, without_rows += kept.without_rows;
    EXPECT_GT(kept.tried, 0) << op->name;
  }
  std::printf("%d combinations of %d ops over %d ranks; %d more, of largest and smallest, leave ranks without rows\n",
              tried, ops, GetParam(), without_rows);
  std::printf("%zu ops keep no split: %s\n", gives_up.size(), fmt::format("{}", fmt::join(gives_up, " ")).c_str());
  std::printf("%zu ops keep terms: %s\n", passes_terms.size(), fmt::format("{}", fmt::join(passes_terms, " ")).c_str());
  if (tested_ops().size() < 50) return;  // STARLING_OPS names a few
  EXPECT_EQ(gives_up.size(), 9u);
  EXPECT_EQ(passes_terms.size(), 27u);
  EXPECT_GE(tried, 20000);
}

// Every op whose rule is not tried, by reason. One that is not in this list has lost its check, or never had one.
const std::map<std::string, std::string> kSkipped = {
    {"effects or bodies, which only graphs have",
     "assign cond constant dequeue dequeue_many enqueue input queue_close queue_size recv recv_from release restore "
     "save "
     "saved_elsewhere scan send send_to variable while while_grad"},
    {"exchanges, which go by the axis that they are of",
     "all_gather all_gather_many all_reduce all_reduce_many all_to_all broadcast coded_reduce gather_rows halo "
     "halo_add "
     "ordered_sum reduce_scatter reduce_scatter_many reduce_to_root resplit"},
    {"shapes that depend on values", "coalesce_rows masked_select nms nonzero unique"},
    {"noise of its place in the whole: two_axes_test.cpp",
     "bernoulli dropout multinomial normal permutation randint shuffle uniform"},
    {"no operands", "arange eye full linspace"},
    {"no rule: taken apart",
     "batch_norm_positive_backward batch_norm_relu batch_norm_relu_backward conv2d_residual linear_epilogue "
     "matmul_act matmul_sgd matmul_sgd_rows mean"},
    {"no rule: whole operands",
     "argsort bag_pick bag_place bag_reduce bag_spread diag_embed diagonal embedding_bag_max index_get index_put "
     "local_conv2d_backward_input local_conv2d_backward_weight masked_gather masked_scatter max_pool2d_backward "
     "meshgrid roi_align roi_align_backward sgd_update_many take"},
    {"statistics of a piece, which is what local batch norm means", "batch_norm_train"}};

TEST(SkippedShardRules, AreKnownWithTheirReasons) {
  std::map<std::string, std::string> skipped;
  for (const OpDef* op : op_registry().sorted()) {
    const std::string reason = reason_to_skip(*op);
    if (!reason.empty()) skipped[reason] += (skipped[reason].empty() ? "" : " ") + op->name;
  }
  for (const auto& [reason, ops] : skipped) std::printf("skipped, %s: %s\n", reason.c_str(), ops.c_str());
  EXPECT_EQ(skipped, kSkipped);
}

// First operand split, alone or with those of its shape beside statistics of each rank, as a local batch norm has them.
std::vector<Layouts> splits_of_the_first(const Types& in, int dim) {
  Layouts alone, together;
  for (std::size_t i = 0; i < in.size(); ++i) {
    alone.push_back(i == 0 ? Layout::split(dim) : Layout::replicate());
    together.push_back(in[i].shape == in[0].shape ? Layout::split(dim) : Layout::partial(ReduceOp::mean));
  }
  return {alone, together};
}

// True if the op refuses a piece of some sample call's operands, split as its rule says, because it has no elements.
bool refuses_an_empty_piece(const OpDef& op) {
  constexpr int kParts = 64;  // more than any sample has rows, so that the first piece is empty
  for (const auto& sample : op.cases()) {
    if (sample.in.empty()) continue;
    const Drawn drawn = draw(sample, DType::f64);
    const TensorList whole = apply(op, drawn.span(), sample.attrs);
    const Types in = types_of(drawn.span()), out = types_of({whole.data(), whole.size()});
    for (int dim = 0; dim < in[0].shape.rank(); ++dim) {
      if (in[0].shape[dim] == 0) continue;
      for (const Layouts& layouts : splits_of_the_first(in, dim)) {
        const ShardRule rule = op.shard(
            {op, {in.data(), in.size()}, {out.data(), out.size()}, sample.attrs, {layouts.data(), layouts.size()}});
        if (!rule.in[0].is_split() || rule.unfuse) continue;
        const TensorList operands = operands_of({op, sample, drawn, whole}, rule, 0, kParts);
        try {
          apply(op, {operands.data(), operands.size()}, local_attrs(sample.attrs, whole[0], rule.out[0], 0, kParts));
        } catch (const Error&) {
          return true;
        }
      }
    }
  }
  return false;
}

TEST(NeedsElements, IsSaidByTheOpsThatRefuseAnEmptyPieceAndByNoOther) {
  for (const auto* op : tested_ops()) {
    if (!op->shard || !op->cases || op->random || op->comm || op->stateful || op->measure) continue;
    EXPECT_EQ(refuses_an_empty_piece(*op), op->needs_elements) << op->name;
  }
}

// Rules that are wrong: one that splits what is summed, and one that takes |a| + |b| for |a + b|.
TEST_P(ShardRules, ControlWrongRulesAreSeen) {
  OpDef softmax = find_op("softmax"), absolute = find_op("abs");
  softmax.shard = rules::shard_elementwise;
  absolute.shard = rules::shard_linear_elementwise;
  EXPECT_FALSE(check_op(softmax, GetParam()).wrong.empty());
  EXPECT_FALSE(check_op(absolute, GetParam()).wrong.empty());
  OpDef of_integers = absolute;
  of_integers.cases = [] {
    return std::vector<OpCase>{{{{.shape = {4, 3}, .low = -9, .high = 9, .dtype = DType::i64}}, op::NoAttrs{}}};
  };
  EXPECT_FALSE(check_op(of_integers, GetParam()).wrong.empty()) << "terms of integers are terms, too";
  EXPECT_TRUE(check_op(find_op("softmax"), GetParam()).wrong.empty());
  EXPECT_TRUE(check_op(find_op("abs"), GetParam()).wrong.empty());
}

}  // namespace
}  // namespace starling::testing
