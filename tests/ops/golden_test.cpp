#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ops/op_checks.h"
#include "starling/data/formats/safetensors.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "testing/temporary_folder.h"

// Values that PyTorch computed, in tests/golden/data: one file a family, made by tests/golden/generate.py. Tensors are
// called <op>/<case>/in<i> and <op>/<case>/out<i>; the metadata <op>/<case> holds the attributes as text and the dtypes
// of the operands, f64 standing for whichever float is tested.
namespace starling::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path kGolden = fs::path(STARLING_GOLDEN_FOLDER);

// Sample calls for the generator, in f32 so that both sides begin with the same numbers.
void add_cases(const OpDef& op, std::vector<NamedTensor>& tensors, data::SafetensorsMetadata& metadata) {
  int number = 0;
  for (const auto& sample : op.cases()) {
    const std::string name = op.name + "/" + std::to_string(number++);
    const Drawn drawn = draw(sample, DType::f32);
    json attrs = json::object(), dtypes = json::array();
    for (const auto& field : sample.attrs.type().fields) attrs[std::string(field.name)] = sample.attrs.print(field);
    for (std::size_t i = 0; i < drawn.in.size(); ++i) {
      tensors.push_back({name + "/in" + std::to_string(i), drawn.in[i]});
      dtypes.push_back(starling::name(sample.in[i].dtype));
    }
    metadata[name] = json{{"attrs", attrs}, {"dtypes", dtypes}}.dump();
  }
}

bool has_values(const OpDef& op) { return op.cases && !op.random && !op.comm && !op.stateful; }

// STARLING_DUMP_CASES names the file that generate.py reads.
TEST(Golden, SampleCallsAreWrittenForTheGenerator) {
  const TemporaryFolder temporary;
  const char* wanted = std::getenv("STARLING_DUMP_CASES");
  const fs::path path = wanted ? fs::path(wanted) : temporary / "cases.safetensors";
  std::vector<NamedTensor> tensors;
  data::SafetensorsMetadata metadata;
  for (const auto* op : tested_ops()) {
    if (has_values(*op)) add_cases(*op, tensors, metadata);
  }
  data::write_safetensors(path, tensors, metadata).value();
  EXPECT_EQ(data::SafetensorsFile::open(path).value().metadata().size(), metadata.size());
}

struct GoldenCall {
  const OpDef* op = nullptr;
  std::string name;
  Attrs attrs{};
  std::vector<Tensor> in{};
  std::map<std::size_t, Tensor> out{};  // by output; PyTorch need not have them all
};

GoldenCall read_call(const data::SafetensorsFile& file, const std::string& name, const std::string& text,
                     DType floats) {
  GoldenCall call{.op = &find_op(name.substr(0, name.find('/'))), .name = name};
  const json given = json::parse(text);
  call.attrs = Attrs::defaults(*call.op->attrs);
  for (const auto& [key, value] : given["attrs"].items()) call.attrs.set(key, value.get<std::string>());
  call.attrs = attrs_for({{}, call.attrs}, floats);
  for (std::size_t i = 0; i < given["dtypes"].size(); ++i) {
    const Tensor x = file.tensor(name + "/in" + std::to_string(i));
    call.in.push_back(given["dtypes"][i] == "f64" ? cast(x, floats) : x);
  }
  for (std::size_t i = 0; i < 16; ++i) {
    const std::string out = name + "/out" + std::to_string(i);
    if (file.contains(out)) call.out.emplace(i, file.tensor(out));
  }
  return call;
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  if (!fs::exists(kGolden / "data")) return files;
  for (const auto& entry : fs::directory_iterator(kGolden / "data")) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  return files;
}

// Calls f for every recorded call of the ops under test.
template <class F>
void for_each_call(DType floats, F&& f) {
  std::set<std::string> wanted;
  for (const auto* op : tested_ops()) wanted.insert(op->name);
  for (const auto& path : golden_files()) {
    const auto file = data::SafetensorsFile::open(path).value();
    for (const auto& [name, text] : file.metadata()) {
      if (wanted.contains(name.substr(0, name.find('/')))) f(read_call(file, name, text, floats));
    }
  }
}

// Integers and bools as they are, floats in the dtype that was tested.
Tensor as_result(const Tensor& golden, DType dtype) { return golden.dtype() == dtype ? golden : cast(golden, dtype); }

void compare(const GoldenCall& call, double tolerance) {
  const TensorList got = apply(*call.op, call.in, call.attrs);
  for (const auto& [i, want] : call.out) {
    ASSERT_LT(i, got.size()) << call.name;
    EXPECT_EQ(is_float(got[i].dtype()), is_float(want.dtype())) << call.name << ", output " << i;
    EXPECT_LE(difference(got[i], as_result(want, got[i].dtype())), tolerance)
        << call.name << " (" << call.attrs.print() << "), output " << i << " of "
        << name(call.in.empty() ? DType::f32 : call.in[0].dtype());
  }
}

TEST(Golden, ForwardValuesInF64AreThoseOfPyTorch) {
  for_each_call(DType::f64, [](const GoldenCall& call) { compare(call, 1e-6); });  // written as f32
}

TEST(Golden, ForwardValuesInF32AreThoseOfPyTorch) {
  for_each_call(DType::f32, [](const GoldenCall& call) { compare(call, 5e-5); });
}

TEST(Golden, EveryOpHasValuesOrSaysWhyNot) {
  std::set<std::string> known;
  for_each_call(DType::f64, [&](const GoldenCall& call) {
    if (!call.out.empty()) known.insert(call.op->name);
  });
  std::ifstream in(kGolden / "absent.json");
  const json absent = in ? json::parse(in) : json::object();
  for (const auto* op : tested_ops()) {
    if (!has_values(*op) || known.contains(op->name)) continue;
    const bool said = absent.contains(op->name) && absent[op->name].get<std::string>().size() > 10;
    EXPECT_TRUE(said) << op->name << " has no values of PyTorch: add it to a file of tests/golden/torch_ops";
  }
}

}  // namespace
}  // namespace starling::testing
