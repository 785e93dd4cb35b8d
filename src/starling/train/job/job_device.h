#pragma once

#include <memory>
#include <string>

#include "starling/dist/comm/gpu/device_comms.h"
#include "starling/tensor/device.h"
#include "starling/train/job/job.h"

namespace starling::train {

// Device of a rank for the value of train.device: `cuda` without a number is, for the rank of that number on its host,
// that GPU modulo those there are; anything else is the same for all ranks. Throws a JobError if it is not there.
Device rank_device(const Job& job, int local_rank, int gpus);
Device rank_device(const Job& job, int local_rank);  // of the GPUs of this machine

bool trains_on_gpus(const Job& job);

// Communicator of the ranks of a job that trains on GPUs: with one for device memory beside it, as distribute.backend
// says (dist::choose_gpu_exchange). Throws Error where that is impossible. Collective.
dist::DeviceComms connect_gpus(const Job& job, std::shared_ptr<Comm> comm, int local_rank);

// Line for the beginning of a run of several ranks on GPUs: who shares which, and which way their exchanges go.
std::string device_note(const Job& job, const dist::DeviceComms& comms, int ranks_here, int gpus);

}  // namespace starling::train
