#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>

namespace starling::dist {

// Functions of NCCL and the CUDA runtime that the nccl backend uses, as a table, so that its logic compiles and is
// tested without either. Handles are opaque, numbers are NCCL's own. nccl/cuda/nccl_binding.cpp fills the table.
using NcclHandle = void*;    // ncclComm_t
using DeviceStream = void*;  // cudaStream_t; null: the default stream
using DeviceEvent = void*;   // cudaEvent_t

struct NcclId {
  std::array<char, 128> bytes{};
};

enum class NcclResult : int { success = 0, invalid_usage = 5, in_progress = 7 };  // any other number: an NCCL error
enum class NcclType : int { i8 = 0, u8 = 1, i32 = 2, u32 = 3, i64 = 4, u64 = 5, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
enum class NcclReduction : int { sum = 0, product = 1, max = 2, min = 3, mean = 4 };

inline constexpr int kNcclNoColor = -1;

struct NcclApi {
  // Communicators are non-blocking: any call on one may return in_progress; async_error tells when it has ended, and
  // how.
  std::function<NcclResult(NcclId& id)> get_unique_id;
  std::function<NcclResult(NcclHandle& comm, int world, const NcclId& id, int rank)> init_rank;
  // part is set by the time comm is no longer in progress; null for kNcclNoColor.
  std::function<NcclResult(NcclHandle comm, int color, int key, NcclHandle& part)> split;
  std::function<NcclResult(NcclHandle comm, NcclResult& state)> async_error;
  std::function<NcclResult(NcclHandle comm)> finalize;  // before destroy: completes started operations
  std::function<NcclResult(NcclHandle comm)> destroy;
  std::function<NcclResult(NcclHandle comm)> abort;  // stops running operations and frees the communicator
  std::function<std::string(NcclResult result, NcclHandle comm)> error_text;

  std::function<NcclResult()> group_start;
  std::function<NcclResult()> group_end;
  std::function<NcclResult(const void* send, void* recv, std::size_t count, NcclType, NcclReduction, NcclHandle,
                           DeviceStream)>
      all_reduce;
  std::function<NcclResult(const void* send, void* recv, std::size_t count, NcclType, int root, NcclHandle,
                           DeviceStream)>
      broadcast;
  std::function<NcclResult(const void* send, void* recv, std::size_t count, NcclType, NcclReduction, int root,
                           NcclHandle, DeviceStream)>
      reduce;
  std::function<NcclResult(const void* send, void* recv, std::size_t count_per_rank, NcclType, NcclReduction,
                           NcclHandle, DeviceStream)>
      reduce_scatter;
  std::function<NcclResult(const void* send, void* recv, std::size_t count_per_rank, NcclType, NcclHandle,
                           DeviceStream)>
      all_gather;
  std::function<NcclResult(const void* data, std::size_t count, NcclType, int peer, NcclHandle, DeviceStream)> send;
  std::function<NcclResult(void* data, std::size_t count, NcclType, int peer, NcclHandle, DeviceStream)> recv;

  // CUDA runtime; these throw Error themselves. All act on the device they are bound to.
  std::function<DeviceStream()> make_stream;  // non-blocking: does not synchronise with the default stream
  std::function<void(DeviceStream)> free_stream;
  std::function<DeviceEvent()> make_event;
  std::function<void(DeviceEvent)> free_event;
  std::function<void(DeviceEvent, DeviceStream)> record;       // captures all work queued on the stream so far
  std::function<bool(DeviceEvent)> passed;                     // never recorded: true
  std::function<void(DeviceStream, DeviceEvent)> stream_wait;  // later work on the stream waits for the event
  std::function<void*(std::size_t bytes)> allocate;
  std::function<void(void*)> free;
};

}  // namespace starling::dist
