#include "starling/dist/strategy/servers/rows_read.h"

#include <gtest/gtest.h>

#include "starling/graph/tracer.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/embedding.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::dist {
namespace {

const EmbeddingOptions kSparse{.sparse = true};

// Tables of which a program over two inputs of ids reads rows alone.
std::vector<RowsRead> tables_of(const std::function<Tensor(std::span<const Tensor>)>& program) {
  const std::vector<Tensor> ids{zeros({4, 3}, DType::i64), zeros({4, 3}, DType::i64)};
  return rows_read(graph::trace([&](std::span<const Tensor> in) { return TensorList{program(in)}; }, ids).graph);
}

TEST(RowsRead, AreThoseOfAnInputWhoseIdsAreOnlyMovedAbout) {
  Tensor table = zeros({50, 8});
  table.set_name("table").set_requires_grad();
  const auto found = tables_of([&](std::span<const Tensor> in) {
    return sum(embedding(reshape(transpose(in[1], {1, 0}), {12}), table, kSparse));
  });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(same(found[0].table, table));
  EXPECT_EQ(found[0].input, 1U);
}

TEST(RowsRead, AreNotKnownWhereIdsAreComputedOrATableIsReadOtherwise) {
  Tensor table = zeros({50, 8});
  table.set_name("table").set_requires_grad();
  const auto none = [&](const char* why, const std::function<Tensor(std::span<const Tensor>)>& program) {
    EXPECT_TRUE(tables_of(program).empty()) << why;
  };
  none("ids that are computed", [&](auto in) { return sum(embedding(in[0] + 1, table, kSparse)); });
  none("a whole table beside rows", [&](auto in) { return sum(embedding(in[0], table, kSparse)) + sum(table); });
  none("ids of two inputs",
       [&](auto in) { return sum(embedding(in[0], table, kSparse)) + sum(embedding(in[1], table, kSparse)); });
  none("dense gradients", [&](auto in) { return sum(embedding(in[0], table)); });
}

TEST(RowsRead, AreEachRowOnceInOrder) {
  const Tensor ids = from_host<std::int64_t>(std::vector<std::int64_t>{7, 3, 7, 49, 3, 50, -1}, {7});
  EXPECT_EQ(rows_among(ids, 50).to_vector(), (std::vector<double>{3, 7, 49}));
}

}  // namespace
}  // namespace starling::dist
