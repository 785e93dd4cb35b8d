#include <gtest/gtest.h>

#include <algorithm>

#include "cli/program.h"
#include "starling/data/formats/npy.h"
#include "starling/ops/api/creation.h"

namespace starling {
namespace {

using testing::has;
using testing::Ran;
using testing::run_starling_in;

auto lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

class CliJobErrors : public ::testing::Test {
 protected:
  // Runs a command on a job of this text, in a folder of its own.
  Ran run(const std::string& command, const std::string& job, const std::string& options = "") const {
    std::ofstream(folder_.path() / "job.yaml") << job;
    return run_starling_in(folder_.path(), command + " job.yaml " + options);
  }
  Ran validate(const std::string& job, const std::string& options = "") const { return run("validate", job, options); }

  testing::TestFolder folder_{"cli-job-errors"};
};

TEST_F(CliJobErrors, ABareNameStandsForAKindInEverySection) {
  const std::string job =
      "model: mlp\ndata: synthetic\noptimizer: adam\nschedule: cosine\ntrain: {steps: 1, objective: classify}\n"
      "distribute: allreduce\n";
  const auto ran = validate(job);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "mlp, ")) << ran.out;
  const auto values = run("print-config", job, "--json").out;
  EXPECT_TRUE(has(values, "\"adam\"") && has(values, "job.yaml:3:12")) << values;
  EXPECT_TRUE(has(run("print-config", job, "--yaml --set optimizer.lr=0.5 --set distribute.workers=2").out, "lr: 0.5"));
  const auto unknown = validate("model: lennet\n");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, "job.yaml:1:8: [config]") && has(unknown.err, "did you mean 'lenet'?")) << unknown.err;
  const auto lacking = validate("model: lenet\ndata: image_folder\n");
  EXPECT_EQ(lacking.code, 2);
  EXPECT_TRUE(has(lacking.err, "job.yaml:2:7: [config] expected the key 'folder'")) << lacking.err;
}

TEST_F(CliJobErrors, AValueThatDoesNotFitTheDataIsToldAtOnceWithItsPlace) {
  const std::string job =
      "model: {name: lenet, classes: 3}\ndata: {name: synthetic, batch: 20}\n"
      "train: {folder: run, best: acuracy, watch: foo, early_stop: {metric: bar}}\n";
  const auto checked = validate(job);
  EXPECT_EQ(checked.code, 2);
  EXPECT_EQ(lines(checked.err), 4) << checked.err;
  for (const char* part :
       {"job.yaml:1:31: [train] expected model.classes of at least 10", "job.yaml:3:28: [train] expected a metric",
        "for train.best", "did you mean 'accuracy'?", "job.yaml:3:44:", "job.yaml:3:70:", "leave it out"})
    EXPECT_TRUE(has(checked.err, part)) << part << "\n" << checked.err;
  const auto trained = run("train", job);
  EXPECT_EQ(trained.code, 2);
  EXPECT_EQ(trained.err, checked.err) << "training tells all that validation tells";
}

TEST_F(CliJobErrors, AnErrorThatFollowsFromAMistakeIsNotToldToo) {
  const auto misspelt = validate("model: lenet\ndata: {name: image_folder, path: x}\n");
  EXPECT_EQ(lines(misspelt.err), 1) << misspelt.err;
  EXPECT_TRUE(has(misspelt.err, "got 'path' (did you mean 'folder'?)")) << misspelt.err;
  const auto layer = validate("model:\n  layers:\n    - flatten\n    - linear: {uot: 3}\n    - dense: {out: 3}\n");
  EXPECT_EQ(lines(layer.err), 2) << layer.err;  // neither 'out' nor a layer is missing beside them
  EXPECT_TRUE(has(layer.err, " names (") && has(layer.err, "got 'dense' (did you mean 'linear'?)")) << layer.err;
}

TEST_F(CliJobErrors, TrainTellsEveryWrongKeyAsValidateDoes) {
  const std::string job = "model: {name: lenet, clases: 3}\ndata: {batch: 0}\ntrain: {epoch: 3}\n";
  const auto checked = validate(job);
  EXPECT_EQ(lines(checked.err), 3) << checked.err;
  for (const char* command : {"train", "launch -n 2", "verify", "print-config"})
    EXPECT_EQ(run(command, job).err, checked.err) << command;
}

TEST_F(CliJobErrors, APictureTooSmallForTheNetworkIsToldAsSuch) {
  const auto ran = validate("model: lenet\ndata: {name: synthetic, shape: [1, 8, 8]}\n");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "job.yaml:2:7: [train] expected pictures of at least 16 × 16 for lenet, got 8 × 8"))
      << ran.err;
  EXPECT_TRUE(has(ran.err, "resize")) << ran.err;
}

TEST_F(CliJobErrors, ANetworkWithTooFewOutputsIsRefusedBeforeItTrains) {
  const std::string job = "model:\n  layers: [flatten, {linear: {out: 5}}]\ndata: synthetic\n";
  for (const char* command : {"validate", "train"}) {
    const auto ran = run(command, job);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_TRUE(has(ran.err, "job.yaml:2:11: [train] expected a network that gives 10 numbers")) << ran.err;
  }
}

TEST_F(CliJobErrors, EveryWrongElementOfAListHasItsOwnNumber) {
  const auto ran = validate("model: mlp\ntrain: {metrics: [accuracy, bad, accuracy, worse]}\n");
  EXPECT_EQ(lines(ran.err), 2) << ran.err;
  EXPECT_TRUE(has(ran.err, "for train.metrics.1, got 'bad'")) << ran.err;
  EXPECT_TRUE(has(ran.err, "for train.metrics.3, got 'worse'")) << ran.err;
}

TEST_F(CliJobErrors, AFileThatIsNoJobIsToldOnce) {
  for (const char* text : {"hello\n", "- a\n- b\n", ""}) {
    const auto ran = validate(text);
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(lines(ran.err), 1) << ran.err;
    EXPECT_TRUE(has(ran.err, "expected a job, which is a map")) << ran.err;
  }
}

TEST_F(CliJobErrors, ATabIsToldAsATab) {
  const auto ran = validate("model:\n\tname: lenet\n");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "job.yaml:2:1: [config] expected spaces before the key, got a tab")) << ran.err;
}

TEST_F(CliJobErrors, WordsOfOtherFrameworksLeadToThoseOfJobs) {
  const auto ran = validate(
      "model: {name: lenet, num_classes: 10}\ndata: {name: synthetic, batch_size: 3}\n"
      "optimizer: {name: adam, learning_rate: 3}\ntrain: {max_epochs: 3, precision: float32, output: x}\n"
      "distribute: {strategy: ddp}\n");
  for (const char* word : {"classes", "batch", "lr", "epochs", "f32", "folder", "allreduce"})
    EXPECT_TRUE(has(ran.err, std::string("did you mean '") + word + "'?")) << word << "\n" << ran.err;
}

TEST_F(CliJobErrors, ATildeIsTheHomeFolder) {
  ::setenv("HOME", folder_.path().c_str(), 1);
  const std::string job = "model: {name: mlp, hidden: [4]}\ndata: {name: synthetic, train_samples: 20}\n";
  const auto ran = run("train", job, "--progress off --set train.folder=~/of_home");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "of_home" / "summary.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "~"));
}

TEST_F(CliJobErrors, TheFolderHasADefaultAndMustBeOneThatCanBeWritten) {
  const std::string job = "model: mlp\ndata: synthetic\n";
  EXPECT_TRUE(has(validate(job).out, "folder      runs/job\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs")) << "validate makes nothing";
  const auto ran = validate(job + "train: {folder: job.yaml/run}\n");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "job.yaml:3:17: [train] expected to make the folder job.yaml/run")) << ran.err;
  EXPECT_TRUE(has(ran.err, "is no folder")) << ran.err;
}

TEST_F(CliJobErrors, MissingDataIsToldAtTheKeyThatNamesIt) {
  const auto ran = validate("model: lenet\ndata: {name: mnist, folder: nowhere}\n");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "job.yaml:2:29: [")) << ran.err;
}

TEST_F(CliJobErrors, MistakesInTheDataAreToldAtTheirKey) {
  std::ofstream(folder_.path() / "t.csv") << "a,b,kind\n1,2,x\n3,4,y\n";
  const std::string head = "model: {name: mlp, hidden: [4]}\ndata:\n  name: csv\n";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"  train: [nowhere.csv]\n  label: kind\n", "job.yaml:4:11: [data] expected files like nowhere.csv"},
      {"  train: [t.csv]\n  label: knd\n", "job.yaml:5:10: [csv] t.csv: expected a column 'knd'"},
      {"  train: [t.csv]\n  label: kind\n  features: [a, c]\n", "job.yaml:6:17: [csv] t.csv: expected a column 'c'"},
      {"  train: [t.csv]\n  label: kind\n  label_kind: number\n", "job.yaml:5:10: [csv] t.csv:2: expected a number"},
      {"  train: [t.csv]\n  label: kind\n  separator: tabb\n", "job.yaml:6:14: [csv] expected a separator"},
      {"  train: [t.csv]\n  label: kind\n  transforms: [{name: resize, size: [4, 4]}]\n",
       "job.yaml:6:16: [transform] at place 1"}};
  for (const auto& [data, told] : wrong) {
    for (const char* command : {"validate", "train"}) {
      const auto ran = run(command, head + data);
      EXPECT_EQ(ran.code, 2) << ran.err;
      EXPECT_TRUE(has(ran.err, told)) << told << "\n" << ran.err;
      EXPECT_EQ(lines(ran.err), 1) << ran.err;
    }
  }
}

TEST_F(CliJobErrors, SeveralWorkersTellAMistakeInTheDataOnce) {
  const std::string job = "model: mlp\ndata: {name: npy, train: [nowhere.npy]}\n";
  const std::string told = "job.yaml:2:27: [file] expected to open nowhere.npy";
  const auto threads = run("train", job, "--set distribute.workers=2");
  EXPECT_EQ(threads.code, 2);
  EXPECT_EQ(lines(threads.err), 1) << threads.err;
  EXPECT_TRUE(has(threads.err, told)) << threads.err;
  const auto processes = run("launch -n 2", job);
  EXPECT_EQ(processes.code, 2);
  const auto first = processes.err.find(told);
  ASSERT_NE(first, std::string::npos) << processes.err;
  EXPECT_EQ(processes.err.find(told, first + 1), std::string::npos) << processes.err;
}

TEST_F(CliJobErrors, AMetricThatCannotJudgeIsToldBeforeTraining) {
  const std::string job =
      "model: {name: mlp, hidden: [4]}\ndata: {name: synthetic, shape: [1, 4, 4]}\n"
      "train: {metrics: [accuracy, mae]}\n";
  const auto checked = validate(job);
  EXPECT_EQ(checked.code, 2);
  EXPECT_EQ(lines(checked.err), 1) << checked.err;
  EXPECT_TRUE(has(checked.err, "job.yaml:3:29: [train] expected metrics for the objective classify")) << checked.err;
  const auto trained = run("train", job, "--progress plain");
  EXPECT_EQ(trained.code, 2);
  EXPECT_EQ(trained.err, checked.err) << "nothing was trained first";
}

TEST_F(CliJobErrors, LabelsThatAreNoClassesAreFoundWithoutTraining) {
  Tensor labels = zeros({6}, DType::i64);
  labels.data<std::int64_t>()[4] = -1;
  data::write_npy(folder_.path() / "x.npy", zeros({6, 3})).value();
  data::write_npy(folder_.path() / "y.npy", labels).value();
  const std::string job = "model: {name: mlp, hidden: [4]}\ndata: {name: npy, train: [x.npy, y.npy]}\n";
  const auto checked = validate(job);
  EXPECT_EQ(checked.code, 2) << checked.out;
  EXPECT_TRUE(has(checked.err, "job.yaml:2:26: [train] expected labels from 0 to learn classes")) << checked.err;
  EXPECT_EQ(run("train", job, "--progress off").err, checked.err);
  labels.data<std::int64_t>()[4] = 5;
  data::write_npy(folder_.path() / "y.npy", labels).value();
  const auto above = validate(job, "--set data.classes=3");
  EXPECT_EQ(above.code, 2);
  EXPECT_TRUE(has(above.err, "--set data.classes: [data] expected labels of 0 to 2, got 0 to 5")) << above.err;
}

TEST_F(CliJobErrors, MistakesInAListOfLayersAskForNoName) {
  for (const char* layers : {"    - flaten\n", "    flatten: {}\n", "    []\n", "    - {zzz: {}}\n",
                             "    - linear:\n      out: 3\n", "    - relu\n     - relu\n"}) {
    const auto ran = validate(std::string("model:\n  layers:\n") + layers + "data: synthetic\n");
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(lines(ran.err), 1) << ran.err;
    EXPECT_FALSE(has(ran.err, "the key 'name'")) << ran.err;
    EXPECT_LT(ran.err.size(), 300U) << "not all layers are listed: " << ran.err;
  }
  EXPECT_TRUE(has(validate("model: {layers: [{relu: {x: 1}}]}\n").err, "expected no options for model.layers.0.relu"));
}

TEST_F(CliJobErrors, ALinearLayerOnPicturesIsToldToFlattenThem) {
  const auto ran =
      validate("model:\n  layers:\n    - conv2d: {out: 4}\n    - relu\n    - linear: {out: 10}\ndata: synthetic\n");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "job.yaml:5:7: ") && has(ran.err, "put `- flatten` before this one")) << ran.err;
}

TEST_F(CliJobErrors, AShapeErrorOfANestedLayerNamesIt) {
  const auto ran = validate(
      "model:\n  layers:\n    - name: block1\n      sequential:\n        layers:\n          - name: think\n"
      "            sequential: {layers: [{linear: {out: 4}}, {name: fc2, conv2d: {out: 4, kernel: 3}}]}\n"
      "    - linear: {out: 10}\ndata: {name: synthetic, shape: [16]}\n");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "job.yaml:7:55: [layers] expected 'fc2' (conv2d) to fit samples f32[4]")) << ran.err;
  EXPECT_TRUE(has(run_starling_in(folder_.path(), "layers repeat").out, "list of layers"));
}

TEST_F(CliJobErrors, ADroppedBatchThatIsTheOnlyOneIsTold) {
  const std::string job =
      "model: {name: mlp, hidden: [4]}\n"
      "data: {name: synthetic, shape: [1, 4, 4], train_samples: 20, batch: 21, drop_last: true}\n";
  for (const char* command : {"validate", "train"}) {
    const auto ran = run(command, job);
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_EQ(lines(ran.err), 1) << ran.err;
    EXPECT_TRUE(has(ran.err, "job.yaml:2:84: [train] expected at least 21 samples, one batch")) << ran.err;
    EXPECT_TRUE(has(ran.err, "got 20 (write data.batch: 20 or less")) << ran.err;
  }
  EXPECT_EQ(validate(job, "--set data.batch=20").code, 0);
}

TEST_F(CliJobErrors, TransformsThatAreNoListAreToldHowToWriteThem) {
  const auto map = validate("model: mlp\ndata: {name: synthetic, augment: {flip: true}}\n");
  EXPECT_EQ(map.code, 2);
  EXPECT_TRUE(has(map.err, "expected a list of transforms, such as [")) << map.err;
  EXPECT_TRUE(has(map.err, "flip") && has(map.err, "for data.augment, got a map")) << map.err;
  EXPECT_TRUE(has(validate("model: mlp\ndata: {name: synthetic, transforms: cutout}\n").err, "such as [")) << map.err;
}

TEST_F(CliJobErrors, AStepThatWouldWaitForNoWorkerIsRefused) {
  const std::string job = "model: mlp\ndata: synthetic\ntrain: {steps: 1}\ndistribute: {strategy: ";
  for (const char* strategy : {"backup_workers, workers: 2, backups: 2}\n", "backup_workers, workers: 1}\n",
                               "sync_server, servers: 1, workers: 2, backups: 3}\n"}) {
    const auto checked = validate(job + strategy);
    EXPECT_EQ(checked.code, 2) << strategy;
    EXPECT_TRUE(has(checked.err, "job.yaml:4:") && has(checked.err, "expected fewer backups than the")) << checked.err;
  }
  // As many workers as processes will meet, or a share of them instead.
  for (const char* strategy :
       {"backup_workers, workers: 3, backups: 2}\n", "backup_workers, backups: 2}\n",
        "backup_workers, workers: 2, backups: 2, quorum: 0.5}\n", "sync_server, servers: 1, workers: 2, backups: 1}\n"})
    EXPECT_EQ(validate(job + strategy).code, 0) << strategy << validate(job + strategy).err;
}

TEST_F(CliJobErrors, AFolderWhereNothingCanBeMadeIsToldBeforeTraining) {
  for (const char* command : {"validate", "train"}) {
    const auto ran = run(command, "model: mlp\ndata: synthetic\ntrain: {folder: /proc/run}\n");
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_TRUE(has(ran.err, "job.yaml:3:17: [train] expected to make the folder /proc/run")) << ran.err;
    EXPECT_TRUE(has(ran.err, "choose another")) << ran.err;
  }
  ASSERT_EQ(validate("model: mlp\ndata: synthetic\n").code, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1) << "the job alone";
}

TEST_F(CliJobErrors, ARepeatedKeyHidesNoOtherMistake) {
  const std::string job =
      "model: {name: lenet, clases: 3}\ntrain: {epochs: 1, epochs: 2}\ndata: {batch: 0}\ndata: {batch: 5}\n";
  for (const char* command : {"validate", "train", "print-config", "sweep --vary optimizer.lr=1,2"}) {
    const auto ran = run(command, job);
    EXPECT_EQ(ran.code, 2) << command;
    EXPECT_EQ(lines(ran.err), 4) << ran.err;
    for (const char* part :
         {"job.yaml:2:20: [config] expected each key once, got 'epochs' again (first at job.yaml:2:9",
          "job.yaml:4:1: [config] expected each key once, got 'data' again", "did you mean 'classes'",
          "job.yaml:3:15: [config] expected an integer"})
      EXPECT_TRUE(has(ran.err, part)) << part << "\n" << ran.err;
  }
  EXPECT_EQ(validate("model: mlp\ndata: synthetic\ntrain: {epochs: 1}\ntrain: {epochs: 1}\n").code, 2);
}

TEST_F(CliJobErrors, AMapIsAskedForWithWhatItHolds) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"train: 5", "expected a map of settings (objective, metrics, epochs, steps, …) for train, got '5'"},
      {"optimizer: [sgd]", "expected a name, as sgd, or a map with it, {name: sgd} for optimizer, got a list of 1"},
      {"train: {early_stop: 3}", "expected a map of settings (metric, patience, min_delta) for train.early_stop"},
      {"distribute: [2]", "expected a map, 'distribute: {setting: value}' for distribute, got a list of 1"}};
  for (const auto& [section, told] : wrong) {
    const auto ran = validate("model: mlp\ndata: synthetic\n" + section + "\n");
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(has(ran.err, told)) << told << "\n" << ran.err;
  }
}

TEST_F(CliJobErrors, AKeyInTheWrongSectionIsToldWhereItBelongs) {
  const std::string head = "model: {name: mlp, hidden: [4]}\ndata: synthetic\n";
  const std::vector<std::pair<std::string, std::string>> misplaced = {
      {"epochs: 3", "'epochs' (did you mean 'epochs' below 'train:'?)"},
      {"lr: 0.1", "'lr' (did you mean 'lr' below 'optimizer:'?)"},
      {"batch_size: 3", "'batch_size' (did you mean 'batch' below 'data:'?)"},
      {"train: {batch: 3}", "'batch' (did you mean 'batch' below 'data:'?)"},
      {"train: {momentum: 0.9}", "(did you mean 'momentum' below 'optimizer:'?)"},
      {"layers: [{relu: {}}]", "'layers' (did you mean 'layers' below 'model:'?)"},
      {"train: {workers: 2}", "(did you mean 'workers' below 'distribute:' or 'workers' below 'data:'?)"},
      {"optimizer: {epochs: 2}", "(did you mean 'epochs' below 'train:'?)"},
      {"optimizer: {beta1: 0.9}", "'beta1' (an option of adam, adamax, adamw, lamb, …, not of sgd)"},
      {"train.epochs: 3", "(write 'epochs:' below 'train:'; paths with dots are for --set)"}};
  for (const auto& [section, told] : misplaced) {
    const auto ran = validate(head + section + "\n");
    EXPECT_EQ(ran.code, 2) << section;
    EXPECT_EQ(lines(ran.err), 1) << ran.err;
    EXPECT_TRUE(has(ran.err, told)) << told << "\n" << ran.err;
  }
  for (const auto& [set, told] : std::vector<std::pair<std::string, std::string>>{
           {"lr=0.1", "(did you mean --set optimizer.lr=…?)"}, {"train.lr=0.1", "--set optimizer.lr=…"}}) {
    const auto ran = run("train", head, "--set " + set);
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(has(ran.err, told)) << told << "\n" << ran.err;
  }
  EXPECT_FALSE(has(validate(head + "zebra: 3\n").err, "did you mean"));
  EXPECT_TRUE(has(run("train", head, "--epochs 5").err, "got --epochs (did you mean --set train.epochs=…?)"));
  EXPECT_TRUE(has(run("train", head, "--seed=4").err, "got --seed (did you mean --set train.seed=…?)"));
  EXPECT_TRUE(has(run("train", head, "--learning-rate=5").err, "(did you mean --set optimizer.lr=…?)"));
}

TEST_F(CliJobErrors, CommonSlipsAreToldWithWhatToWrite) {
  const std::string data = "data: {name: synthetic, shape: [1, 4, 4]}\n";
  const std::vector<std::pair<std::string, std::string>> slips = {
      {"model: {name: mlp, hidden: 8}\n" + data, "expected a list for model.hidden, got '8' (write [8])"},
      {"model: mlp\ndata: {name: synthetic, shuffle: yes}\n", "got 'yes' (write true)"},
      {"model:\n" + data, "job.yaml:1:1: [config] expected a value for model, got nothing behind 'model:'"},
      {"model: {name: 'mlp}\n" + data, "(the quote ' of line 1 is not closed)"},
      {"model: {name: mlp, hidden: [8}\n" + data, "(the [ of line 1 is not closed before the } of line 1)"},
      {"model: {name: mlp, hidden: [8]\n" + data, "(the { of line 1 is not closed)"},
      {"model: {name: mlp hidden: [8]}\n" + data, "expected YAML"},
      {"{\"model\": \"mlp\" \"data\": \"synthetic\"}\n", "(a comma is missing here or before)"},
      {"model: mlp\n" + data + "train: {device: gpu}\n", "(did you mean 'cuda'?)"},
      {"model: mlp\n" + data + "train: {objective: mse}\n", "(did you mean 'regress'?)"}};
  for (const auto& [job, told] : slips) {
    const auto ran = validate(job);
    EXPECT_EQ(ran.code, 2) << job;
    EXPECT_EQ(lines(ran.err), 1) << ran.err;
    EXPECT_TRUE(has(ran.err, told)) << told << "\n" << ran.err;
  }
  EXPECT_EQ(validate("model: mlp # it's {a [comment\ndata: {name: synthetic, shape: [16]} # '\n").code, 0);
}

TEST_F(CliJobErrors, SlipsOfIndentationAreToldAsSuch) {
  const std::vector<std::pair<std::string, std::string>> slips = {
      {"model: lenet\ndata:\n  name: synthetic\n   batch: 3\n", "indented deeper than 'name: synthetic' above it"},
      {"model: lenet\ndata:\n    name: synthetic\n  batch: 3\n", "align 'batch: 3' with the keys"},
      {"model:\nname: lenet\n", "expected the keys of 'model:' to be indented below it, got 'name'"},
      {"model:lenet\ndata: synthetic\n", "write a space behind the colon of 'model:lenet'"}};
  for (const auto& [job, told] : slips) {
    const auto ran = validate(job);
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(lines(ran.err), 1) << ran.err;
    EXPECT_TRUE(has(ran.err, told)) << told << "\n" << ran.err;
  }
}

}  // namespace
}  // namespace starling
