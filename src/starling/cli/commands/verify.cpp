#include "starling/runtime/verify/verify.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "starling/autograd/autograd.h"
#include "starling/base/parallel.h"
#include "starling/cli/bench/bench_net.h"
#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/data/loading/loader.h"
#include "starling/ops/api/random.h"
#include "starling/train/job/prepared_job.h"
#include "starling/zoo/zoo.h"

namespace starling::cli {
namespace {

struct VerifyArguments : BenchOptions {
  std::string what;
  std::vector<std::string> set;
  double tolerance = 0;
  bool no_fp64 = false;
};

// A step to verify, and a function that returns its loss and gradients.
struct Subject {
  graph::TraceFn step;
  graph::TraceFn gradients;
  std::vector<Tensor> arguments;
  std::vector<std::string> gradient_names;
};

bool is_job(const std::string& what) {
  const auto extension = std::filesystem::path(what).extension();
  return extension == ".yaml" || extension == ".yml";
}

// The first step of `starling train`, on one rank.
class JobStep {
 public:
  explicit JobStep(const train::Job& job)
      : prepared_(prepare_job(job)), optimizer_(make_optimizer(job, *prepared_.net)) {
    LoaderOptions how;
    how.batch = job.data.load.batch;
    how.shuffle = false;
    how.transforms = prepared_.data.train_steps;
    const auto& set = prepared_.data.splits.train;
    check(set != nullptr,
          "[verify] expected data that can be asked by number, got shards without an index (write "
          "data.indexed: true)");
    Loader loader(set, how);
    for (const auto& field : loader.next()->fields) {
      arguments_.push_back(empty(field.shape(), field.dtype()));
      copy_into(arguments_.back(), field);
    }
    manual_seed(job.train.seed);
  }
  JobStep(const JobStep&) = delete;
  JobStep& operator=(const JobStep&) = delete;

  Subject subject() {
    Subject made;
    made.step = [this](std::span<const Tensor> in) {
      const Tensor loss = prepared_.objective->apply(*prepared_.net, in).loss;
      loss.backward();
      optimizer_->step();
      return TensorList{loss};
    };
    made.gradients = [this](std::span<const Tensor> in) {
      const Tensor loss = prepared_.objective->apply(*prepared_.net, in).loss;
      TensorList all{loss};
      for (const auto& gradient : gradients({&loss, 1}, prepared_.net->parameters())) all.push_back(gradient);
      return all;
    };
    made.arguments = arguments_;
    made.gradient_names = {"loss"};
    for (const auto& parameter : prepared_.net->parameters()) made.gradient_names.push_back("grad " + parameter.name());
    return made;
  }

 private:
  train::PreparedJob prepared_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<Tensor> arguments_;
};

bool report(const char* title, const runtime::VerifyReport& result) {
  fmt::print("{}\n{}{}\n\n", title, result.print(), result.ok() ? "ok" : "NOT OK");
  return result.ok();
}

bool verify(const Subject& subject, const VerifyArguments& options) {
  runtime::VerifyOptions how;
  how.tolerance = options.tolerance;
  how.fp64 = !options.no_fp64;
  how.threads = options.threads;
  bool ok = true;
  if (subject.gradients) {
    how.outputs = subject.gradient_names;
    ok = report("loss and gradients", verify_step(subject.gradients, subject.arguments, how));
  }
  how.outputs = {subject.gradients ? "loss" : "result"};
  return report("the whole step: results and every variable it writes",
                verify_step(subject.step, subject.arguments, how)) &&
         ok;
}

int run_verify(VerifyArguments options) {
  if (options.what.empty()) options.what = options.net;
  if (options.what.empty())
    throw UsageError(
        "[verify] expected the name of a network or a job file, as in `starling verify lenet`, got none (see starling "
        "verify --help)");
  const ThreadScope threads(options.threads > 0 ? options.threads : num_threads());
  std::optional<JobStep> job;
  std::optional<BenchNet> net;
  Subject subject;
  if (is_job(options.what)) {
    const train::Job read = load_job({options.what, options.set});
    subject = job.emplace(read).subject();
  } else {
    BenchOptions made = options;
    made.net = options.what;
    net.emplace(made);
    subject.step = net->function();
    subject.arguments = net->arguments();
    if (options.phase == "train") {
      subject.gradients = net->gradients();
      subject.gradient_names = net->gradient_names();
    }
  }
  return verify(subject, options) ? kOk : kFailure;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_verify(cli::Commands& into) {
  auto [app, o] = into.add<cli::VerifyArguments>(
      "verify", "Runs a step eagerly, compiled and in fp64, compares them, and names the pass that makes a difference",
      {{"verify lenet", "a training step of LeNet"},
       {"verify job.yaml --set data.batch=8", "the first step of a job on its own data"}},
      cli::run_verify);
  app.add_option("what", o.what, "Name of a network, or a job file (.yaml) whose first step is taken");
  app.add_option("--net", o.net)->group("");  // another way to name the network; not shown
  cli::add_set_option(app, o.set);
  app.add_option("--phase", o.phase, "forward or train; of networks")
      ->check(CLI::IsMember({"forward", "train"}))
      ->capture_default_str();
  app.add_option("--batch", o.batch, "Samples in a batch; 0: as in the published figures")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--threads", o.threads, "0: all")->check(CLI::Range(0, 1024));
  app.add_option("--device", o.device, "cpu or cuda")->capture_default_str();
  app.add_option("--dtype", o.dtype, "f32 or f64")->capture_default_str();
  app.add_option("--tolerance", o.tolerance,
                 "Largest relative L2 distance of compiled from eager; 0: 1e-5 (f32), 1e-11 (f64)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--no-fp64", o.no_fp64, "Compares eager and compiled only");
}

}  // namespace starling
