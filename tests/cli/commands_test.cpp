#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/program.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

using testing::run_starling;

TEST(Cli, RefusesAnUnknownCommandAsMisuse) {
  const auto ran = run_starling("trian");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err.find("starling: "), 0U) << ran.err;
  EXPECT_NE(ran.err.find("did you mean 'train'?"), std::string::npos) << ran.err;
  EXPECT_EQ(run_starling("").code, 2);
  EXPECT_EQ(run_starling("--help").code, 0);
}

TEST(Cli, FailsWhenItsOutputCannotBeWritten) {
  const std::string program = "'" + testing::program_path().string() + "'";
  for (const char* command : {"ops conv2d", "ops --json", "bench --list"}) {
    const int status = std::system((program + " " + command + " >/dev/full 2>/dev/null").c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << command;
  }
}

TEST(CliBench, PrintsOneJsonLineWithEveryField) {
  const auto ran =
      run_starling("bench sae_small --batch 4 --threads 1 --phase forward --mode eager --seconds 0.01 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("net"), "sae_small");
  EXPECT_EQ(json.at("batch"), 4);
  EXPECT_EQ(json.at("threads"), 1);
  EXPECT_EQ(json.at("device"), "cpu");
  EXPECT_EQ(json.at("dtype"), "f32");
  EXPECT_EQ(json.at("phase"), "forward");
  EXPECT_EQ(json.at("mode"), "eager");
  EXPECT_GT(json.at("step_ms").get<double>(), 0);
  EXPECT_LE(json.at("p10_ms").get<double>(), json.at("step_ms").get<double>());
  EXPECT_GT(json.at("samples_per_s").get<double>(), 0);
  EXPECT_GT(json.at("peak_bytes").get<std::int64_t>(), 0);
  EXPECT_EQ(json.at("program_bytes"), 0) << "eager has no program";
  EXPECT_EQ(json.at("variable_bytes"), 4 * (784 * 400 + 400 + 400 * 200 + 200 + 200 * 100 + 100 + 100 * 10 + 10));
  EXPECT_GE(json.at("rss_bytes").get<std::int64_t>(), json.at("variable_bytes").get<std::int64_t>());
  EXPECT_EQ(json.size(), 14U);
}

TEST(CliBench, TrainsANetworkOfTokensAndTellsItsMemory) {
  const auto lstm = run_starling("bench --net lstm --batch 2 --threads 1 --seconds 0 --json");
  ASSERT_EQ(lstm.code, 0) << lstm.err;
  const auto json = nlohmann::json::parse(lstm.out);
  EXPECT_GT(json.at("program_bytes").get<std::int64_t>(), 0);
  EXPECT_GT(json.at("rss_bytes").get<std::int64_t>(), json.at("program_bytes").get<std::int64_t>());
}

TEST(CliBench, ExportsWhatItImportsAndGivesTheSameLossesEagerAndCompiled) {
  const testing::TestFolder folder("cli-bench");
  const std::string file = "'" + (folder.path() / "net.safetensors").string() + "'";
  ASSERT_EQ(run_starling("bench sae_small --batch 8 --export " + file).code, 0);
  const auto losses = [&](const std::string& mode) {
    const auto ran =
        run_starling("bench sae_small --batch 8 --threads 1 --json --import " + file + " --losses 5 --mode " + mode);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out).at("losses").get<std::vector<double>>();
  };
  const auto eager = losses("eager");
  const auto compiled = losses("compiled");
  ASSERT_EQ(eager.size(), 5U);
  ASSERT_EQ(compiled.size(), 5U);
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], compiled[i], 1e-4);
  EXPECT_NE(eager.front(), eager.back());
  EXPECT_EQ(run_starling("bench sae_small --batch 9 --losses 1 --import " + file).code, 1);
}

TEST(CliBench, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(run_starling("bench").code, 2);
  const auto net = run_starling("bench lennet");
  EXPECT_EQ(net.code, 2);
  EXPECT_NE(net.err.find("'lenet'"), std::string::npos) << net.err;
  EXPECT_EQ(run_starling("bench mlp --phase backward").code, 2);
  EXPECT_EQ(run_starling("bench mlp --disable nothing").code, 2);
  EXPECT_EQ(run_starling("bench mlp --dtype i64").code, 2);
}

TEST(CliBench, ListsNetworksAndExplainsAStep) {
  EXPECT_NE(run_starling("bench --list").out.find("lenet"), std::string::npos);
  const auto ran = run_starling("bench sae_small --batch 4 --explain");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("starling-graph 1"), std::string::npos);
  EXPECT_NE(ran.out.find("prune"), std::string::npos);
}

TEST(CliOps, ListsEveryOpAsABindingRow) {
  const auto ran = run_starling("ops --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto rows = nlohmann::json::parse(ran.out);
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(op_registry().size()));
  for (const auto& row : rows) {
    const OpDef* op = op_registry().find(row.at("name").get<std::string>());
    ASSERT_NE(op, nullptr);
    EXPECT_EQ(row.at("inputs").size(), op->inputs.size()) << op->name;
    EXPECT_EQ(row.at("attributes").size(), op->attrs->fields.size()) << op->name;
    EXPECT_FALSE(row.at("doc").get<std::string>().empty()) << op->name;
  }
}

TEST(CliOps, ShowsOneOpAndNamesTheNearestOfAnUnknownOne) {
  EXPECT_NE(run_starling("ops conv2d").out.find("conv2d("), std::string::npos);
  const auto ran = run_starling("ops conv2");
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("conv2d"), std::string::npos) << ran.err;
}

TEST(CliOps, TheDocumentationTableHasARowForEveryOp) {
  const auto table = run_starling("ops --markdown").out;
  for (const auto* op : op_registry().sorted()) EXPECT_NE(table.find("`" + op->name), std::string::npos) << op->name;
}

TEST(CliDoctor, TellsWhatItFound) {
  const auto ran = run_starling("doctor");
  EXPECT_EQ(ran.code, 0);
  for (const char* what : {"CPU", "ISA", "threads", "version", "CUDA", "data"})
    EXPECT_NE(ran.out.find(what), std::string::npos) << what;
}

}  // namespace
}  // namespace starling
