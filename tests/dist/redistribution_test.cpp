// Ways from each layout to each other: the whole comes out, and what is sent is what the table says, counted where
// bytes move.
#include "starling/ops/def/sharding/redistribution.h"

#include <gtest/gtest.h>

#include "dist/comm_worlds.h"
#include "starling/graph/parser.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/runtime/execution/instance.h"
#include "starling/starling.h"

namespace starling::dist {
namespace {

// Large enough that backends do not take their way for small buffers, which sends more.
const Shape kEven{12, 24, 12}, kUneven{13, 22, 11};

Layout in_blocks(int dim, int blocks) {
  Layout layout = Layout::split(dim);
  layout.blocks = static_cast<std::int16_t>(blocks);
  return layout;
}

const Layout kLayouts[] = {Layout::replicate(), Layout::split(0), Layout::split(1),
                           Layout::split(2),    in_blocks(1, 2),  Layout::partial()};

Tensor numbers(const Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<double>(i % 1009));
  return from_doubles(values, shape, DType::f64);
}

// Of a whole tensor what a rank stores: its piece in every block, a term of it, or all of it.
Tensor stored(const Tensor& whole, Layout layout, int rank, int ranks) {
  if (layout.is_partial()) return mul(whole, rank == 0 ? 2.0 - ranks : 1.0);
  if (layout.is_replicate()) return mul(whole, 1.0);
  const std::int64_t block = whole.size(layout.dim) / layout.blocks;
  const Piece own = piece_of(block, rank, ranks);
  TensorList pieces;
  for (std::int64_t b = 0; b < layout.blocks; ++b)
    pieces.push_back(
        slice(whole, {.axis = layout.dim, .begin = b * block + own.begin, .end = b * block + own.begin + own.size}));
  return concat({pieces.data(), pieces.size()}, layout.dim);
}

std::string marked(const Shape& shape, Layout layout) {
  const std::string type = to_string(TensorType{DType::f64, shape});
  return layout.is_replicate() ? "" : fmt::format(" : {}<{}>", type, to_string(layout));
}

// A step that assigns one variable to another, of another layout; before that perhaps to one that is whole.
graph::Graph assignment(const Shape& shape, Layout from, Layout to, bool also_whole) {
  std::string text = "starling-graph 1\n";
  const char* names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i)
    text += fmt::format("variable {} \"{}\" {}\n", i, names[i], to_string(TensorType{DType::f64, shape}));
  const Layout layouts[] = {from, to, Layout::replicate()};
  for (int i = 0; i < 3; ++i)
    text += fmt::format("%{} = variable {{index={}, shape={}, dtype=f64}}{}\n", names[i], i, to_string(shape),
                        marked(shape, layouts[i]));
  if (also_whole) text += "assign(%a) {index=2}\n";
  text += "assign(%a) {index=1}\n%one = full {value=1}\nreturn %one\n";
  return graph::parse_graph(text);
}

struct MovedTensor {
  std::vector<Tensor> made;  // by rank
  std::int64_t bytes = 0;    // sent by all ranks
};

MovedTensor moved(const Shape& shape, Layout from, Layout to, int ranks, bool also_whole = false) {
  MovedTensor moved{.made = std::vector<Tensor>(static_cast<std::size_t>(ranks))};
  const Tensor whole = numbers(shape);
  const auto comms = make_thread_comms(ranks, {.deadline = std::chrono::seconds(30)});
  run_ranks(comms, [&](Comm& comm) {
    const int rank = comm.rank();
    const graph::Graph local =
        graph::Partitioner(assignment(shape, from, to, also_whole), {.parts = ranks, .first = rank}, {}).run();
    Container container;
    container.set("a", stored(whole, from, rank, ranks));
    const Tensor made = mul(stored(whole, to, rank, ranks), 0.0);
    container.set("b", made);
    container.set("c", mul(whole, 0.0));
    runtime::Instance instance(runtime::Executable::build(local, {.threads = 1}), container,
                               {.comm = &comm, .rank = rank});
    const Tensor one = full({}, 0.0);
    instance.run({}, {&one, 1});
    moved.made[static_cast<std::size_t>(rank)] = made;
  });
  for (const auto& comm : comms) moved.bytes += static_cast<std::int64_t>(comm->journal().total().bytes_sent);
  return moved;
}

void expect_whole(const MovedTensor& moved, const Shape& shape, Layout layout) {
  const Tensor whole = numbers(shape);
  const int ranks = static_cast<int>(moved.made.size());
  Tensor sum = mul(whole, 0.0);
  for (int rank = 0; rank < ranks; ++rank) {
    const Tensor& made = moved.made[static_cast<std::size_t>(rank)];
    if (layout.is_partial())
      sum = add(sum, made);
    else
      EXPECT_EQ(made.to_vector(), stored(whole, layout, rank, ranks).to_vector()) << "rank " << rank;
  }
  if (!layout.is_partial()) return;
  const std::vector<double> got = sum.to_vector(), want = whole.to_vector();
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-9) << i;
}

class Redistribution : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static int ranks() { return std::get<0>(GetParam()); }
  static const Shape& shape() { return std::get<1>(GetParam()) ? kEven : kUneven; }
  static std::int64_t bytes(Layout from, Layout to) { return 8 * sent_elements(shape(), from, to, ranks()); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Redistribution, ::testing::Combine(::testing::Values(2, 3, 4), ::testing::Bool()),
                         [](const auto& info) {
                           return fmt::format("P{}_{}", std::get<0>(info.param),
                                              std::get<1>(info.param) ? "even" : "uneven");
                         });

TEST_P(Redistribution, MakesEveryLayoutFromEveryOtherAndSendsWhatTheTableSays) {
  for (const Layout from : kLayouts) {
    for (const Layout to : kLayouts) {
      SCOPED_TRACE(to_string(from) + " to " + to_string(to));
      const MovedTensor some = moved(shape(), from, to, ranks());
      expect_whole(some, shape(), to);
      EXPECT_EQ(some.bytes, bytes(from, to));
    }
  }
}

// A split along another dimension sends every element at most once; the control gathers, since the whole is needed as
// well, and then nothing more is sent.
TEST_P(Redistribution, AnotherSplitSendsAPthOfAGather) {
  const Layout rows = Layout::split(0), columns = Layout::split(1);
  const std::int64_t whole = 8 * shape().numel();
  EXPECT_LT(moved(shape(), rows, columns, ranks()).bytes, whole);
  const MovedTensor control = moved(shape(), rows, columns, ranks(), true);
  expect_whole(control, shape(), columns);
  EXPECT_EQ(control.bytes, (ranks() - 1) * whole);
  if (std::get<1>(GetParam())) {
    EXPECT_EQ(bytes(rows, columns) * ranks(), control.bytes);
  }
}

TEST_P(Redistribution, NoDetourSendsLess) {
  for (const Layout from : kLayouts) {
    for (const Layout over : kLayouts) {
      for (const Layout to : kLayouts)
        EXPECT_LE(bytes(from, to), bytes(from, over) + bytes(over, to))
            << to_string(from) << " over " << to_string(over) << " to " << to_string(to);
    }
  }
}

TEST(RedistributionTable, HasOneWayForEveryPair) {
  std::set<std::pair<Layout::Kind, Layout::Kind>> pairs;
  for (const Transition& one : transitions()) EXPECT_TRUE(pairs.insert({one.from, one.to}).second) << one.by;
  EXPECT_EQ(pairs.size(), 9U);
  EXPECT_THROW(transition(Layout::split(0), Layout::partial(ReduceOp::max)), Error);
}

}  // namespace
}  // namespace starling::dist
