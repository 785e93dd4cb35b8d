// A user's own pictures, arrays, tables and texts: trained, and predicted from the same kind of raw file.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "starling/data/formats/npy.h"
#include "starling/train/monitor/picture.h"

namespace starling {
namespace {

using nlohmann::json;
using testing::file_text;
using testing::has;
using testing::Ran;
using testing::run_starling;

class CliOwnData : public ::testing::Test {
 protected:
  // Writes a job; {} in its text stands for the data folder. Returns its run folder; the job lies beside it.
  std::string write_job(const std::string& name, std::string job) const {
    for (auto at = job.find("{}"); at != std::string::npos; at = job.find("{}")) job.replace(at, 2, path());
    const std::string run = path() + "/run-" + name;
    std::ofstream(run + ".yaml") << job << "\ndistribute: {threads: 1}\nmonitor: {tensorboard: false}\n";
    return run;
  }
  static Ran train(const std::string& run) {
    return run_starling("train " + run + ".yaml --progress off --set train.folder=" + run);
  }
  std::string trained(const std::string& name, const std::string& job) const {
    std::string run = write_job(name, job);
    const Ran ran = train(run);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return run;
  }
  static json predicted(const std::string& run, const std::string& input) {
    const Ran ran = run_starling("predict " + run + " " + input + " --json");
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? json::parse(ran.out) : json::array();
  }
  static std::string likeliest(const json& one) { return one.at("classes").at(0).at("class"); }
  static json signature(const std::string& run) {
    return json::parse(file_text(run + "/model/model.json"))["signature"];
  }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
  }
  // A picture of one colour with some noise.
  void write_picture(const std::string& name, std::array<int, 3> colour, std::int64_t height,
                     std::int64_t width) const {
    train::Picture picture{width, height, 3, {}};
    for (std::int64_t i = 0; i < height * width * 3; ++i)
      picture.pixels.push_back(static_cast<std::uint8_t>(colour[static_cast<std::size_t>(i % 3)] + i * 7 % 23));
    write(name, to_png(picture));
  }
  void write_colours() const {
    for (int i = 0; i < 16; ++i) {
      write_picture("pictures/blue/" + std::to_string(i) + ".png", {20 + i, 30, 150 + 3 * i}, 20 + i, 24);
      write_picture("pictures/red/" + std::to_string(i) + ".png", {150 + 3 * i, 30, 20 + i}, 24, 20 + i);
    }
  }
  std::string path() const { return folder_.path().string(); }

  testing::TestFolder folder_{"cli-own-data"};
};

constexpr const char* kColours =
    "model:\n  layers: [{conv2d: {out: 4, kernel: 3, stride: 2}}, relu, global_avg_pool, {linear: {out: 2}}]\n"
    "optimizer: {name: adam, lr: 0.05}\ntrain: {epochs: 8, folder: x}\n";

TEST_F(CliOwnData, PicturesTrainWithDefaultsAndPredictFromTheFile) {
  write_colours();
  write_picture("new.png", {20, 30, 190}, 50, 31);
  const auto job = [](const std::string& more) {
    return std::string(kColours) + "data: {name: image_folder, folder: '{}/pictures', height: 16, width: 16, batch: 8" +
           more + "}\n";
  };
  const std::string bytes = trained("bytes", job(", split: {test: 0.25, seed: 3}, transforms: [flip]"));
  const json summary = json::parse(file_text(bytes + "/summary.json"));
  EXPECT_TRUE(has(summary.dump(), "test_accuracy")) << summary.dump();
  // Augmentation is no part of a prediction, the conversion of bytes is.
  EXPECT_EQ(signature(bytes)["transforms"].size(), 1U) << signature(bytes)["transforms"];
  EXPECT_EQ(signature(bytes)["transforms"][0]["name"], "to_float");
  EXPECT_EQ(likeliest(predicted(bytes, path() + "/new.png").at(0)), "blue");
  EXPECT_EQ(likeliest(predicted(bytes, path() + "/pictures/red").at(0)), "red");

  // Samples of f32 from 0 to 1 are the same numbers, so the same network comes out.
  const std::string floats = trained("floats", job(", split: {test: 0.25, seed: 3}, transforms: [flip], bytes: false"));
  const json a = predicted(bytes, path() + "/new.png"), b = predicted(floats, path() + "/new.png");
  EXPECT_NEAR(a.at(0)["classes"][0]["probability"].get<double>(), b.at(0)["classes"][0]["probability"].get<double>(),
              1e-3);
}

TEST_F(CliOwnData, FilesThatAreNoPicturesAreLeftOutAndNamed) {
  write_colours();
  write("pictures/red/page.png", "<html>not found</html>");
  write("pictures/red/empty.jpg", "");
  const std::string sound = file_text(folder_.path() / "pictures/red/3.png");
  write("pictures/red/cut.png", sound.substr(0, sound.size() / 2));
  const std::string job =
      std::string(kColours) + "data: {name: image_folder, folder: '{}/pictures', height: 16, width: 16, batch: 8}\n";
  const std::string run = write_job("lenient", job);
  const Ran ran = train(run);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.err, "2 of 35 files")) << ran.err;
  for (const char* name : {"page.png: it is neither", "empty.jpg: it is empty", "cut.png"})
    EXPECT_TRUE(has(ran.err, name)) << ran.err;
  EXPECT_EQ(ran.err.find("cut.png"), ran.err.rfind("cut.png")) << "told once, not every epoch: " << ran.err;
  const Ran folder = run_starling("predict " + run + " " + path() + "/pictures/red --json");
  EXPECT_EQ(folder.code, 0) << folder.err;
  EXPECT_EQ(json::parse(folder.out).size(), 16U);
  EXPECT_TRUE(has(folder.err, "page.png") && has(folder.err, "3 of 19 so far")) << folder.err;
  EXPECT_NE(run_starling("predict " + run + " " + path() + "/pictures/red/cut.png").code, 0);
  const Ran strict = run_starling("train " + run + ".yaml --progress off --set train.folder=" + run +
                                  "-strict --set data.strict=true");
  EXPECT_NE(strict.code, 0);
  EXPECT_TRUE(has(strict.err, ".png") || has(strict.err, ".jpg")) << strict.err;
}

TEST_F(CliOwnData, AFolderWithoutPicturesIsNoClassAndIsNamed) {
  for (int i = 0; i < 4; ++i) {
    write_picture(fmt::format("pictures/blue/{}.png", i), {10, 10, 200}, 16, 16);
    write_picture(fmt::format("pictures/red/{}.png", i), {200, 10, 10}, 16, 16);
  }
  std::filesystem::create_directories(folder_.path() / "pictures" / "green");
  const std::string run =
      write_job("empty", std::string(kColours) +
                             "data: {name: image_folder, folder: '{}/pictures', height: 16, width: 16, batch: 8}\n");
  const Ran checked = run_starling("validate " + run + ".yaml");
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_TRUE(has(checked.err, "pictures/green has no pictures: it is no class")) << checked.err;
  const Ran ran = train(run);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.err, "pictures/green has no pictures: it is no class")) << ran.err;
  EXPECT_EQ(signature(run).at("class_names"), json({"blue", "red"})) << signature(run).dump();
  EXPECT_TRUE(has(run_starling("inspect data " + path() + "/pictures").out, "0, empty: no class"));
}

TEST_F(CliOwnData, ArraysOfEveryNumberTrainAndPredictAsTheyLie) {
  std::vector<double> x, y, target;
  for (int i = 0; i < 60; ++i) {
    x.insert(x.end(), {static_cast<double>(i % 2 == 0 ? 10 + i : 190 + i), static_cast<double>(i)});
    y.push_back(i % 2);
    target.push_back(i % 2 == 0 ? -1.5 : 2.5);
  }
  data::write_npy(path() + "/y.npy", from_doubles(y, {60}, DType::i64)).value();
  data::write_npy(path() + "/target.npy", from_doubles(target, {60}, DType::f64)).value();
  for (const auto& [name, dtype] : {std::pair{"f64", DType::f64}, std::pair{"u8", DType::u8}}) {
    const std::string file = path() + "/x_" + name + ".npy";
    std::vector<double> values = x;
    if (dtype == DType::f64) {
      for (double& value : values) value /= 100;
    }
    data::write_npy(file, from_doubles(values, {60, 2}, dtype)).value();
    const std::string run =
        trained(name, "model: {name: mlp, hidden: [8]}\ndata: {name: npy, train: ['" + file +
                          "', '{}/y.npy'], class_names: [low, high], batch: 10}\noptimizer: {name: adam, lr: 0.05}\n"
                          "train: {epochs: 15, folder: x}");
    const json made = predicted(run, file);
    ASSERT_EQ(made.size(), 60U);
    EXPECT_EQ(likeliest(made.at(10)), "low") << name;
    EXPECT_EQ(likeliest(made.at(11)), "high") << name;
  }
  const std::string run = write_job("numbers",
                                    "model: {name: mlp, hidden: [8]}\ndata: {name: npy, train: ['{}/x_f64.npy', "
                                    "'{}/target.npy'], batch: 10}\ntrain: {epochs: 1, folder: x}");
  const Ran checked = run_starling("validate " + run + ".yaml --set train.folder=" + run);
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_TRUE(has(checked.out, "objective   regress")) << checked.out;
  EXPECT_TRUE(has(checked.out, "f32[2], f32[] (converted to f32 where the network begins)")) << checked.out;
  const Ran ids = run_starling("validate " + run + ".yaml --set model='{name: gru}'");
  EXPECT_NE(ids.code, 0);
  EXPECT_TRUE(has(ids.err, "expected token ids, i64") && has(ids.err, "x.astype('int64')")) << ids.err;
}

TEST_F(CliOwnData, ArraysOfAnArchiveTrainAndPredictByTheirNames) {
  const std::vector<double> x(24, 0.5), y = {0, 1, 0, 1, 0, 1, 0, 1};
  const std::vector<NamedTensor> arrays = {{"x", from_doubles(x, {8, 3}, DType::f64)},
                                           {"y", from_doubles(y, {8}, DType::i64)}};
  data::write_npz(path() + "/d.npz", arrays).value();
  const std::string model = "model: {name: mlp, hidden: [4]}\ntrain: {epochs: 1}\n";
  const std::string run = trained("npz", model + "data: {name: npy, train: ['{}/d.npz:x', '{}/d.npz:y'], batch: 4}\n");
  const Ran by_name = run_starling("predict " + run + " " + path() + "/d.npz:x");
  EXPECT_EQ(by_name.code, 0) << by_name.err;
  EXPECT_TRUE(has(by_name.out, "d.npz:x[7]: class ")) << by_name.out;
  const Ran alone = run_starling("predict " + run + " " + path() + "/d.npz");
  EXPECT_NE(alone.code, 0);
  EXPECT_TRUE(has(alone.err, "d.npz:x, got the file alone, which has (x, y)")) << alone.err;
  const std::string whole = write_job("whole", model + "data: {name: npy, train: ['{}/d.npz']}\n");
  const Ran told = run_starling("validate " + whole + ".yaml");
  EXPECT_EQ(told.code, 2);
  EXPECT_TRUE(has(told.err, "expected one of its arrays, as ") && has(told.err, "d.npz:x, got the file alone"))
      << told.err;
}

TEST_F(CliOwnData, ArraysOfSmallWholeNumbersGoThroughTheTransformsOfTraining) {
  std::vector<double> x, y;
  for (int i = 0; i < 60; ++i) {
    x.insert(x.end(), {static_cast<double>(i % 2 == 0 ? 100 + i : 1900 + i), static_cast<double>(i)});
    y.push_back(i % 2);
  }
  data::write_npy(path() + "/y.npy", from_doubles(y, {60}, DType::i64)).value();
  const auto file = [&](DType dtype) {
    const std::string name = path() + "/x_" + std::string(starling::name(dtype)) + ".npy";
    data::write_npy(name, from_doubles(x, {60, 2}, dtype)).value();
    return name;
  };
  const std::string run = trained(
      "i32", "model: {name: mlp, hidden: [8]}\ndata: {name: npy, train: ['" + file(DType::i32) +
                 "', '{}/y.npy'], class_names: [low, high], batch: 10, transforms: [{name: to_float, scale: 0.001}]}\n"
                 "optimizer: {name: adam, lr: 0.05}\ntrain: {epochs: 15, folder: x}");
  for (const DType dtype : {DType::i32, DType::i64}) {
    const json made = predicted(run, file(dtype));
    ASSERT_EQ(made.size(), 60U);
    EXPECT_EQ(likeliest(made.at(10)), "low") << starling::name(dtype);
    EXPECT_EQ(likeliest(made.at(11)), "high") << starling::name(dtype);
    EXPECT_LT(made.at(10)["classes"][0]["probability"].get<double>(), 1) << "without the scale it were sure";
  }
  const Ran floats = run_starling("predict " + run + " " + file(DType::f32));
  EXPECT_NE(floats.code, 0);
  EXPECT_TRUE(has(floats.err, "x.astype('int64')")) << floats.err;
}

// Rows whose class depends on the colour and on the size.
std::string shapes_csv(bool train) {
  std::string rows = train ? "id,size,colour,weight,kind\n" : "weight,note,colour,size\n";
  for (int i = 0; i < 80; ++i) {
    const int size = 1000 + i * 37 % 100;
    const std::string colour = i % 3 == 0 ? "red" : "blue", weight = i % 9 == 5 ? "" : std::to_string(i % 4);
    const std::string kind = colour == "red" && size > 1050 ? "apple" : "plum";
    if (train) {
      rows += std::to_string(i) + "," + std::to_string(size) + "," + colour + "," + weight + "," + kind + "\n";
    } else {
      rows += weight + ",x," + colour + "," + std::to_string(size) + "\n";
    }
  }
  return rows;
}

TEST_F(CliOwnData, TablesPredictFromColumnsByName) {
  write("shapes.csv", shapes_csv(true));
  write("new.csv", shapes_csv(false));
  const std::string run =
      trained("table",
              "model: {name: mlp, hidden: [16]}\noptimizer: {name: adam, lr: 0.02}\ntrain: {epochs: 25, folder: x}\n"
              "data: {name: csv, train: ['{}/shapes.csv'], label: kind, categories: [colour], ignore: [id], "
              "missing: mean, standardise: true, batch: 10}");
  const json rows = predicted(run, path() + "/new.csv"), trained_rows = predicted(run, path() + "/shapes.csv");
  ASSERT_EQ(rows.size(), 80U);
  int right = 0;
  for (std::size_t i = 0; i < 80; ++i) {
    EXPECT_EQ(rows[i]["classes"], trained_rows[i]["classes"]) << "the order of columns changed row " << i;
    const bool apple = i % 3 == 0 && i * 37 % 100 > 50;
    right += likeliest(rows[i]) == (apple ? "apple" : "plum") ? 1 : 0;
  }
  EXPECT_GE(right, 76);

  // A job with another training file learns other words and means.
  write("other.csv", shapes_csv(true) + "99,9000,green,3,plum\n");
  std::string other = file_text(run + ".yaml");
  other.replace(other.find("shapes.csv"), 10, "other.csv");
  std::ofstream(path() + "/other.yaml") << other;
  const std::string evaluate = "eval " + run + "/model --set data.split.test=0.2 --data ";
  const Ran same = run_starling(evaluate + run + ".yaml");
  EXPECT_TRUE(same.code == 0 && !has(same.err, "warning")) << same.err;

  // Read with its own words and means, neither the network of the run nor its saved model would know its rows again.
  const auto accuracy = [&](const std::string& what, const std::string& data) {
    const Ran ran =
        run_starling("eval " + what + " --json --metrics accuracy --set data.split.test=0.5 --data " + data);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? json::parse(ran.out)["metrics"]["test_accuracy"].get<double>() : 0;
  };
  for (const std::string& what : {run, run + "/model"}) {
    EXPECT_GE(accuracy(what, path() + "/other.yaml"), 0.9) << what;
    EXPECT_GE(accuracy(what, run + ".yaml"), 0.9) << what;
  }
  std::filesystem::rename(run + "/model", run + "/moved");
  EXPECT_GE(accuracy(run, path() + "/other.yaml"), 0.9) << "from the run's own training file";
  std::filesystem::rename(run + "/moved", run + "/model");

  write("short.csv", "colour,weigth\nred,1\n");
  const Ran missing = run_starling("predict " + run + " " + path() + "/short.csv");
  EXPECT_NE(missing.code, 0);
  EXPECT_TRUE(has(missing.err, "expected the columns 'size', 'weight', got 2 others: colour, weigth")) << missing.err;
  EXPECT_TRUE(has(missing.err, "did you mean 'weigth'?")) << missing.err;
  write("words.csv", "size,colour,weight\nbig,red,1\n");
  const Ran words = run_starling("predict " + run + " " + path() + "/words.csv");
  EXPECT_TRUE(has(words.err, "words.csv:2: expected a number in the column 'size', got 'big'\n")) << words.err;
  const Ran told = run_starling("inspect model " + run + "/model --signature");
  EXPECT_TRUE(has(told.out, "reads       {\"kind\":\"table\"")) << told.out;
}

TEST_F(CliOwnData, TablesWrittenOtherwiseAreToldHowToBeRead) {
  write("semicolons.csv", "a;b;kind\n1;2;x\n3;4;y\n");
  write("commas.csv", "a;b;kind\n0,5;2;x\n3;4;y\n");
  write("plain.csv", "a,b,kind\n1,2,x\n3,4,y\n");
  write("one.csv", "a,b,kind\n1,2,x\n3,4,x\n");
  const auto validated = [&](const std::string& data) {
    const std::string run = write_job("told", "model: {name: mlp, hidden: [4]}\ndata: {name: csv, " + data + "}\n");
    return run_starling("validate " + run + ".yaml").err;
  };
  const std::pair<std::string, std::string> calls[] = {
      {"train: ['{}/semicolons.csv'], label: kind", "got another one: a;b;kind (write separator: ';')"},
      {"train: ['{}/commas.csv'], label: kind, separator: ';'", "'0,5' (numbers have a point: replace the decimal"},
      {"train: ['{}/plain.csv']", "in the column 'kind', got 'x' (if it is what is to be learned, write label: "},
      {"train: '{}/plain.csv'", "(write ["},
      {"train: ['{}/one.csv'], label: kind", "note: all samples have one and the same class"}};
  for (const auto& [data, told] : calls) EXPECT_TRUE(has(validated(data), told)) << told << "\n" << validated(data);
}

TEST_F(CliOwnData, NumbersOfATableMakeARegressionWithNamedTargets) {
  std::string rows = "x,y,sum,twice\n";
  for (int i = 0; i < 100; ++i) {
    const int x = i % 10, y = i * 7 % 13;
    rows +=
        std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(x + y) + "," + std::to_string(2 * x) + "\n";
  }
  write("sums.csv", rows);
  const std::string head =
      "model: {name: mlp, hidden: [16]}\noptimizer: {name: adam, lr: 0.02}\ntrain: {epochs: 30, folder: x}\n"
      "data: {name: csv, train: ['{}/sums.csv'], standardise: true, batch: 10, ";
  const std::string one = trained("one", head + "label: sum, label_kind: number, ignore: [twice]}");
  write("new.csv", "y,x\n3,4\n");
  const Ran text = run_starling("predict " + one + " " + path() + "/new.csv");
  EXPECT_TRUE(has(text.out, "new.csv[0]: sum ")) << text.out << text.err;
  EXPECT_NEAR(predicted(one, path() + "/new.csv").at(0)["targets"]["sum"].get<double>(), 7, 1.5);

  const std::string two = trained("two", head + "targets: [sum, twice]}");
  const json made = predicted(two, path() + "/new.csv").at(0)["targets"];
  EXPECT_NEAR(made["sum"].get<double>(), 7, 1.5);
  EXPECT_NEAR(made["twice"].get<double>(), 8, 1.5);
  EXPECT_EQ(run_starling("predict " + two + " " + path() + "/new.csv -o " + path() + "/out.csv").code, 0);
  EXPECT_TRUE(file_text(path() + "/out.csv").starts_with("input,sum,twice\n")) << file_text(path() + "/out.csv");
}

TEST_F(CliOwnData, LargeTargetsAreLearnedStandardisedAndPredictedInTheirUnits) {
  std::string rows = "x,y,price\n";
  for (int i = 0; i < 100; ++i) {
    const int x = i % 10, y = i * 7 % 13;
    rows += std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(100000 + 5000 * x + 3000 * y) + "\n";
  }
  write("prices.csv", rows);
  write("new.csv", "y,x\n3,4\n");
  const std::string job =
      "model: {name: mlp, hidden: [16]}\noptimizer: {name: adam, lr: 0.02}\ntrain: {epochs: 40, folder: x}\n"
      "data: {name: csv, train: ['{}/prices.csv'], test: ['{}/prices.csv'], label: price, label_kind: number, "
      "standardise: true, standardise_targets: true, batch: 10}";
  const std::string run = trained("prices", job);
  EXPECT_NEAR(predicted(run, path() + "/new.csv").at(0)["targets"]["price"].get<double>(), 129000, 4000);
  const auto metrics = [](const Ran& ran) { return json::parse(ran.out)["metrics"]; };
  const json of_run = metrics(run_starling("eval " + run + " --json"));
  EXPECT_GT(of_run["test_mae"].get<double>(), 10) << "in the units of the targets";
  EXPECT_LT(of_run["test_mae"].get<double>(), 4000);
  const json of_model = metrics(run_starling("eval " + run + "/model --json"));
  EXPECT_NEAR(of_model["test_mae"].get<double>(), of_run["test_mae"].get<double>(), 1);
  const Ran classes = run_starling("validate " + run + ".yaml --set data.label_kind=classes");
  EXPECT_TRUE(has(classes.err, "expected numbers to predict with standardise_targets")) << classes.err;
}

TEST_F(CliOwnData, MixedLabelsAreClassified) {
  write_colours();
  const auto job = [](const std::string& steps) {
    return std::string(kColours) +
           "data: {name: image_folder, folder: '{}/pictures', height: 16, width: 16, batch: 8, " +
           "split: {test: 0.25, seed: 3}, transforms: [to_float], augment: [" + steps + "]}\n";
  };
  for (const std::string step : {"mixup", "cutmix"}) {
    const std::string run = trained(step, job("{name: " + step + ", classes: 2}"));
    EXPECT_GT(json::parse(file_text(run + "/summary.json"))["metrics"]["test_accuracy"].get<double>(), 0.8) << step;
  }
  const Ran bare = run_starling("validate " + write_job("bare", job("mixup")) + ".yaml");
  EXPECT_TRUE(has(bare.err, "write their number, as classes: 10")) << bare.err;
  const Ran three = run_starling("validate " + write_job("three", job("{name: mixup, classes: 3}")) + ".yaml");
  EXPECT_TRUE(has(three.err, "as many classes as the network has outputs")) << three.err;
}

TEST_F(CliOwnData, MeasuredNumbersAsClassesAreRefusedWithTheLineToWrite) {
  std::string rows = "x,price\n";
  for (int i = 0; i < 50; ++i) rows += std::to_string(i) + "," + std::to_string(i * 1.25) + "\n";
  write("prices.csv", rows);
  const std::string run = write_job("prices",
                                    "model: {name: mlp, hidden: [8]}\ndata: {name: csv, train: ['{}/prices.csv'], "
                                    "label: price}\ntrain: {epochs: 1, folder: x}");
  const Ran ran = run_starling("validate " + run + ".yaml");
  EXPECT_NE(ran.code, 0);
  EXPECT_TRUE(has(ran.err, "write label_kind: number")) << ran.err;
}

TEST_F(CliOwnData, TextsAreClassifiedFromAFileOrFromTheCommandLine) {
  const std::vector<std::string> good = {"great", "lovely", "fast", "solid"}, bad = {"awful", "broken", "slow", "poor"};
  std::string rows = "stars,review,mood\n";
  for (std::size_t i = 0; i < 60; ++i) {
    const auto& words = i % 2 == 0 ? good : bad;
    rows +=
        "3,\"It is " + words[i % 4] + ", really " + words[i / 2 % 4] + "!\"," + (i % 2 == 0 ? "good" : "bad") + "\n";
  }
  write("reviews.csv", rows);
  write("new.csv", "review\n\"GREAT and solid, I'd say\"\n");
  write("new.txt", "broken and slow\n\nlovely\n");
  for (const std::string tokens : {"words", "hashed"}) {
    const std::string run = trained(tokens,
                                    "model: {name: gru, width: 8}\noptimizer: {name: adam, lr: 0.05}\n"
                                    "train: {epochs: 8, folder: x}\ndata: {name: csv_text, train: ['{}/reviews.csv'], "
                                    "text: review, label: mood, length: 8, batch: 10, vocabulary: 200, tokens: " +
                                        tokens + ", split: {test: 0.2}}");
    EXPECT_EQ(likeliest(predicted(run, "'an awful thing'").at(0)), "bad") << tokens;
    EXPECT_EQ(likeliest(predicted(run, path() + "/new.csv").at(0)), "good") << tokens;
    const json lines = predicted(run, path() + "/new.txt");
    ASSERT_EQ(lines.size(), 3U) << "an empty line has its place, too";
    EXPECT_EQ(likeliest(lines.at(0)), "bad") << tokens;
    EXPECT_EQ(lines.at(2)["input"], "lovely");
    EXPECT_EQ(run_starling("predict " + run + " " + path() + "/nowhere.csv").code, 2);
    const Ran confusion = run_starling("eval " + run + " --metrics confusion");
    EXPECT_TRUE(has(confusion.out, "label   bad  good")) << confusion.out << confusion.err;
  }
}

TEST_F(CliOwnData, ASeedSplitsOneSource) {
  write("shapes.csv", shapes_csv(true));
  const std::string run =
      write_job("split",
                "model: {name: mlp, hidden: [8]}\ndata: {name: csv, train: ['{}/shapes.csv'], label: "
                "kind, categories: [colour], missing: zero, split: {test: 0.25, valid: 0.1, seed: "
                "4}}\ntrain: {epochs: 1, folder: x}");
  const Ran ran = run_starling("inspect data " + run + ".yaml --stats");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto same = run_starling("inspect data " + run + ".yaml --stats");
  EXPECT_EQ(ran.out, same.out);
  EXPECT_NE(ran.out, run_starling("inspect data " + run + ".yaml --stats --set data.split.seed=5").out);
  const Ran sizes = run_starling("inspect data " + run + ".yaml");
  for (const char* part :
       {"train features: 52 of ", "train label: 52 of ", "valid features: 8 of ", "test features: 20 of "})
    EXPECT_TRUE(has(sizes.out, part)) << sizes.out;
  const Ran twice = run_starling("validate " + run + ".yaml --set data.test_share=0.2");
  EXPECT_NE(twice.code, 0);
  EXPECT_TRUE(has(twice.err, "leave out split.test")) << twice.err;
}

}  // namespace
}  // namespace starling
