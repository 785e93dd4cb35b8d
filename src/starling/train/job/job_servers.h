#pragma once

#include "starling/train/job/job_run.h"
#include "starling/train/ranks/processes.h"
#include "starling/train/workers/served_model.h"

namespace starling::train {

// Runs a job whose workers share a model through parameter servers. Leader, workers and servers are threads of this
// process; the leader is the calling thread.
TrainResult train_with_servers(const Job& job, const TrainOptions& options);

// Runs this process's part of such a job of several processes: the last distribute.servers ranks are servers, the
// others workers, and the first of them leads.
TrainResult train_with_servers(const Job& job, const TrainOptions& options, const Processes& others);

// Role of a rank in a job with so many workers: "leader", "worker 1", "server 0".
std::string role_of(int rank, int workers);
// True if the others go on without it.
bool is_spare(const Job& job, int rank, int workers);

// Tensors that the servers of a job hold, uncut where backups and norms of whole tensors (lars, lamb) meet.
std::vector<dist::ps::ServedTensor> tensors_of(const Job& job, const dist::TrainedState& state);

// Workers among so many ranks of a job with servers. Throws a JobError if there are none, or others than the job says.
int workers_among(const Job& job, int ranks);

}  // namespace starling::train
