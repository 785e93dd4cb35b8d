// How the tensors of networks lie on servers, cut as jobs cut them.
#include <gtest/gtest.h>

#include <algorithm>

#include "starling/dist/ps/keys.h"
#include "starling/optim/sgd.h"
#include "starling/train/workers/served_model.h"
#include "starling/zoo/zoo.h"

namespace starling::train {
namespace {

double ratio(const dist::ps::KeyTable& table) {
  double least = 1e18, most = 0;
  for (int s = 0; s < table.servers(); ++s) {
    least = std::min(least, static_cast<double>(table.bytes(s)));
    most = std::max(most, static_cast<double>(table.bytes(s)));
  }
  return most / least;
}

dist::ps::KeyTable table_of(const std::string& net, int servers, bool lines, bool by_rows = true) {
  const zoo::Net chosen = zoo::nets().by_name(net == "narrow" ? "mlp" : net);
  const auto made = (net == "narrow" ? zoo::with(chosen, {{"hidden", {7}}}) : chosen).make().make();
  optim::Sgd optimizer(made->parameters(), {.lr = 0.1});
  dist::TrainedState state{.rule = &optimizer};
  for (auto& [name, tensor] : made->named_parameters()) state.weights.push_back({name, tensor});
  auto tensors = served_tensors(state, servers, false, lines);
  for (auto& tensor : tensors) tensor.by_rows = tensor.by_rows && by_rows;
  return {tensors, servers};
}

// Tensors that are cut between rows (for rows of embeddings), or between lines (for one_bit and factors), cannot be cut
// wherever it would be even.
TEST(ServedTensors, LieEvenlyOnServersThoughTheyAreCutBetweenRows) {
  for (const char* net : {"mlp", "lenet", "lstm", "narrow"}) {
    for (const int servers : {2, 3, 4}) {
      for (const bool lines : {false, true}) {
        const auto table = table_of(net, servers, lines);
        EXPECT_LE(ratio(table), 1.1) << net << " on " << servers << (lines ? " by lines" : " by rows");
        int whole_rows = 0;
        for (const auto& key : table.keys()) {
          const auto& tensor = table.tensors()[key.tensor];
          if (!tensor.by_rows) continue;
          ++whole_rows;
          EXPECT_EQ(key.begin % table.row_size(key.tensor), 0) << tensor.name;
          EXPECT_EQ(key.size % table.row_size(key.tensor), 0) << tensor.name;
        }
        if (net != std::string("narrow")) {  // whose seven rows cannot be shared out evenly
          EXPECT_GT(whole_rows, 0) << net;
        }
      }
    }
  }
  const auto torn = [](const dist::ps::KeyTable& table) {
    return std::ranges::any_of(table.keys(),
                               [&](const auto& key) { return key.begin % table.row_size(key.tensor) != 0; });
  };
  EXPECT_TRUE(torn(table_of("lenet", 3, false, false))) << "control: cuts within rows";
}

}  // namespace
}  // namespace starling::train
