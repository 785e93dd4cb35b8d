#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "held.h"
#include "signals.h"
#include "starling/base/error.h"
#include "starling/train/callback.h"
#include "starling/train/job/job.h"
#include "starling/train/job/job_run.h"
#include "starling/train/loop/trainer.h"
#include "starling/train/objective.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling::python {
namespace {

// A run as callbacks see it, for as long as a call of theirs lasts.
struct PyRun {
  Run* run;

  Run& get() const {
    check(run != nullptr, "[run] expected the run to be used inside a callback only");
    return *run;
  }
};

// A callback that is any Python object with some of the methods begin, step, evaluated, epoch, end.
class PyCallback final : public Callback {
 public:
  explicit PyCallback(nb::object object) : object_(held(std::move(object))) {}
  std::string name() const override { return "python"; }
  void begin(Run& run) override { tell("begin", run); }
  void step(Run& run) override { tell("step", run); }
  void evaluated(Run& run) override { tell("evaluated", run); }
  void epoch(Run& run) override { tell("epoch", run); }
  void end(Run& run) override { tell("end", run); }

 private:
  void tell(const char* method, Run& run) {
    const nb::gil_scoped_acquire gil;
    if (!nb::hasattr(*object_, method)) return;
    const nb::object handle = nb::cast(PyRun{&run});
    struct Over {
      PyRun& used;
      ~Over() { used.run = nullptr; }
    } const over{nb::cast<PyRun&>(handle)};
    object_->attr(method)(handle);
  }

  Held object_;
};

void bind_run(nb::module_& m) {
  nb::class_<PyRun>(m, "Run", "A training run, as callbacks see it; valid during the call.")
      .def_prop_ro("step", [](const PyRun& self) { return self.get().state().step; })
      .def_prop_ro("epoch", [](const PyRun& self) { return self.get().state().position.epoch; })
      .def_prop_ro("samples", [](const PyRun& self) { return self.get().state().samples; })
      .def_prop_ro("loss", [](const PyRun& self) { return self.get().last().loss; })
      .def_prop_ro("lr", [](const PyRun& self) { return self.get().last().lr; })
      .def_prop_ro("metrics", [](const PyRun& self) { return self.get().evaluation().metrics; })
      .def(
          "report", [](PyRun& self, const std::string& name, double value) { self.get().report(name, value); },
          nb::arg("name"), nb::arg("value"), "Adds a metric to the last evaluation.")
      .def(
          "note", [](PyRun& self, const std::string& text) { self.get().note(text); }, nb::arg("text"))
      .def(
          "stop", [](PyRun& self, const std::string& reason) { self.get().stop(reason); },
          nb::arg("reason") = "a callback asked for it");
}

nb::object summary_of(const Summary& summary) { return from_json_text(to_json(summary)); }

nb::object run_a_job(const std::string& job, bool is_text, const std::vector<std::string>& overrides, bool quiet) {
  const ConfigNode top = is_text ? ConfigNode::parse(job, "job", overrides) : ConfigNode::load(job, overrides);
  const train::Job read = train::read_job(top);
  train::TrainOptions options;
  SignalWatch signals;
  options.stop = [&signals] { return signals.arrived(); };
  if (quiet) options.progress.mode = ProgressMode::off;
  train::TrainResult result;
  {
    const nb::gil_scoped_release release;
    result = train::run_job(read, options);
  }
  signals.raise();
  check(!result.beyond,
        "[train] expected a run of no more epochs and steps than the job asks for, got one that went further in {}",
        read.train.folder.string());
  nb::object summary = summary_of(result.summary);
  summary["was_finished"] = result.was_finished;
  return summary;
}

struct PyTrainer {
  std::shared_ptr<nn::Module> net;
  nb::object optimizer;
  std::shared_ptr<SignalWatch> signals;
  std::unique_ptr<Trainer> trainer;
};

nb::object fit(PyTrainer& self, std::shared_ptr<Dataset> data, std::shared_ptr<Dataset> test) {
  *self.signals = {};
  FitResult result;
  {
    const nb::gil_scoped_release release;
    result = self.trainer->fit(std::shared_ptr<const Dataset>(std::move(data)),
                               std::shared_ptr<const Dataset>(std::move(test)));
  }
  self.signals->raise();
  return summary_of(result.summary);
}

void bind_trainer(nb::module_& m) {
  nb::class_<PyTrainer>(m, "TrainerBase")
      .def(
          "__init__",
          [](PyTrainer* self, std::shared_ptr<nn::Module> net, nb::object optimizer, const std::string& objective,
             std::int64_t epochs, std::int64_t steps, std::int64_t batch, std::int64_t seed, double clip_norm,
             const std::string& folder, bool quiet, nb::handle callbacks) {
            TrainerOptions options{.epochs = epochs,
                                   .steps = steps,
                                   .seed = seed,
                                   .batch = batch,
                                   .folder = folder,
                                   .clip_norm = clip_norm};
            auto signals = std::make_shared<SignalWatch>();
            options.stop = [signals] { return signals->arrived(); };
            if (quiet) options.progress.mode = ProgressMode::off;
            auto& rule = nb::cast<optim::Optimizer&>(optimizer);
            auto trainer = std::make_unique<Trainer>(*net, rule, objective_kinds().by_name(objective).make(), options);
            for (nb::handle callback : callbacks) trainer->add(std::make_shared<PyCallback>(nb::borrow(callback)));
            new (self) PyTrainer{std::move(net), std::move(optimizer), std::move(signals), std::move(trainer)};
          },
          nb::arg("net"), nb::arg("optimizer"), nb::arg("objective"), nb::arg("epochs"), nb::arg("steps"),
          nb::arg("batch"), nb::arg("seed"), nb::arg("clip_norm"), nb::arg("folder"), nb::arg("quiet"),
          nb::arg("callbacks"))
      .def("fit", &fit, nb::arg("train"), nb::arg("test").none())
      .def(
          "evaluate",
          [](PyTrainer& self, std::shared_ptr<Dataset> data) {
            Evaluation evaluation;
            {
              const nb::gil_scoped_release release;
              evaluation = self.trainer->evaluate(data);
            }
            return evaluation.metrics;
          },
          nb::arg("data"))
      .def(
          "predict", [](PyTrainer& self, nb::handle fields) { return self.trainer->predict(to_tensors(fields)); },
          nb::arg("fields"));
}

void bind_saved_model(nb::module_& m) {
  nb::class_<SavedModel>(m, "SavedModel", "A trained network in a folder.")
      .def(
          "__init__",
          [](SavedModel* self, const std::string& folder) {
            auto loaded = SavedModel::load(folder);
            if (!loaded.ok()) throw Error(loaded.error());
            new (self) SavedModel(std::move(loaded.value()));
          },
          nb::arg("folder"))
      .def(
          "__call__",
          [](SavedModel& self, nb::args inputs) {
            std::vector<Tensor> in;
            for (nb::handle input : inputs) in.push_back(dense(to_tensor(input, std::nullopt, true)));
            TensorList out;
            {
              const nb::gil_scoped_release release;
              out = self.run(in);
            }
            return to_python(out);
          },
          nb::arg("inputs"))
      .def_prop_ro("parameter_count", &SavedModel::parameter_count)
      .def_prop_ro("weights", [](const SavedModel& self) {
        nb::dict weights;
        for (const auto& [name, tensor] : self.weights()) weights[name.c_str()] = tensor;
        return weights;
      });
}

}  // namespace

void bind_training(nb::module_& m) {
  bind_run(m);
  bind_trainer(m);
  bind_saved_model(m);
  m.def("_run_job", &run_a_job, nb::arg("job"), nb::arg("is_text"), nb::arg("overrides"), nb::arg("quiet"));
  m.def("_objectives", [] { return objective_kinds().names(); });
}

}  // namespace starling::python
