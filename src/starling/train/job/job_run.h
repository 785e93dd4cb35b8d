#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <vector>

#include "starling/train/callback.h"
#include "starling/train/job/job.h"
#include "starling/train/loop/progress.h"
#include "starling/train/ranks/processes.h"
#include "starling/train/run/summary.h"

namespace starling::train {

struct TrainOptions {
  ProgressOptions progress{};
  // Polled after every step, and after every batch of evaluations; true: save and return. Null: never. During
  // pre-training, which leaves nothing to save, true throws Interrupted.
  std::function<bool()> stop{};
  // Workers that are threads: told, on another thread, if one of them is hung (distribute.deadline) and does not come
  // back, so that run_job cannot return. Ends the process, if anything. Null: nothing is told.
  std::function<void(const std::string& finding)> hung{};
  std::filesystem::path trace{};    // file for a Chrome trace of some steps; empty: none
  std::ostream* explain = nullptr;  // receives the compiled step's graph and explain() once
  std::int64_t pause_after = 0;     // epochs in all after which to save and return, to be resumed later; 0: none
  dist::ProcessFlags processes{};   // rank and world of this process
  // Network of the program's own, trained in place of the job's `model`, and callbacks beside the job's. Both belong to
  // one rank: several workers of one process are threads of its steps, which only allreduce can be.
  std::shared_ptr<nn::Module> net{};
  // Makes such a network; called by every rank, worker, leader and server, each on its own thread, whose random numbers
  // begin with the job's seed. All of them get equal ones. With callbacks it is called once, as if `net` were given.
  std::function<std::shared_ptr<nn::Module>()> make_net{};
  std::vector<CallbackPtr> callbacks{};
};

struct TrainResult {
  Summary summary{};
  bool stopped = false;           // stopped on request before the end
  bool was_finished = false;      // had reached its end before, so that nothing was trained
  bool beyond = false;            // had been trained for longer than the job asks: its folder is left as it was
  std::int64_t epochs = 0;        // whole epochs that are done
  bool saved = true;              // the last state is saved in a checkpoint
  bool summary_written = true;    // summary.json is in the folder
  std::string ended_by{};         // why a callback ended the run early; empty: none did
  std::filesystem::path model{};  // folder of the saved model; empty: not requested, or failed
  std::string model_error{};      // why saving the model failed
  bool leads = true;              // the process that writes the files and prints
};

// The program's own network for one rank; null: the job's model.
std::shared_ptr<nn::Module> own_net(const Job& job, const TrainOptions& options);

// Runs a job to its end with compiled steps over the global batch. The workers are threads of this process, or the
// processes of a distributed launch, which all call this. Evaluates after each epoch; saves checkpoints then, every
// train.checkpoint_every steps and at the end. The run folder gets job.yaml, checkpoints/, summary.json and model/. A
// run that was stopped or killed resumes from its newest checkpoint with bit-identical results. Seeds the default
// random generator of this thread. A failed save is reported and training continues; a non-finite loss throws, naming
// the step.
TrainResult run_job(const Job& job, const TrainOptions& options = {});

}  // namespace starling::train
