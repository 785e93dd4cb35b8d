#include "starling/ops/api/saved_tensors.h"

#include <cstring>

#include "starling/base/error.h"
#include "starling/base/hash/hash.h"
#include "starling/data/formats/safetensors.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/saved_tensors.h"
#include "starling/tensor/bytes.h"

// Kernels of `save` and `restore`, placed here because the file format belongs to a higher layer than the kernels.
namespace starling::train {
namespace {

std::string checksum_key(const std::string& name) { return "xxh3-128 " + name; }

std::string checksum(const Tensor& tensor) {
  Hash128 hash;
  hash.update(data::host_bytes(tensor));
  return hash.hex();
}

std::string path_of(const std::string& file, bool with_step, const kernels::Launch& launch) {
  return with_step ? op::numbered(file, *static_cast<const std::int64_t*>(launch.in[0])) : file;
}

// A view of an operand, which is only read.
Tensor view(void* data, const TensorType& type) {
  const std::size_t bytes = bytes_of(type);
  Ref<Storage> storage = new Storage(
      kCpu, data, bytes, [](void*) {}, true);
  return from_storage(std::move(storage), type.dtype, type.shape);
}

std::unique_ptr<kernels::Plan> plan_save(const kernels::PlanRequest& request) {
  const auto& a = request.attrs.as<op::SaveAttrs>();
  const bool with_step = op::is_numbered(a.file);
  std::vector<TensorType> types;
  for (const auto& arg : request.in) types.push_back({arg.dtype, arg.shape});
  return kernels::make_plan(
      [file = a.file.str(), names = op::split_names(a.names.str()), types, with_step](const kernels::Launch& launch) {
        std::vector<NamedTensor> tensors;
        data::SafetensorsMetadata metadata;
        std::int64_t bytes = 0;
        for (std::size_t i = 0; i < names.size(); ++i) {
          const std::size_t operand = i + (with_step ? 1 : 0);
          tensors.push_back({names[i], view(launch.in[operand], types[operand])});
          metadata[checksum_key(names[i])] = checksum(tensors.back().tensor);
          bytes += static_cast<std::int64_t>(data::host_bytes(tensors.back().tensor).size());
        }
        data::write_safetensors(std::filesystem::path(path_of(file, with_step, launch)), tensors, metadata).value();
        *static_cast<std::int64_t*>(launch.out[0]) = bytes;
      });
}

std::unique_ptr<kernels::Plan> plan_saved_elsewhere(const kernels::PlanRequest& request) {
  std::int64_t bytes = 0;
  for (std::size_t i = op::is_numbered(request.attrs.as<op::SaveAttrs>().file) ? 1 : 0; i < request.in.size(); ++i)
    bytes += static_cast<std::int64_t>(bytes_of(request.in[i]));
  return kernels::make_plan(
      [bytes](const kernels::Launch& launch) { *static_cast<std::int64_t*>(launch.out[0]) = bytes; });
}

// Verifies checksums in files written by Starling; files of other programs have none.
void check_undamaged(const data::SafetensorsFile& file, const std::string& path, const std::string& name,
                     const Tensor& tensor) {
  const auto it = file.metadata().find(checksum_key(name));
  if (it == file.metadata().end()) return;
  const std::string found = checksum(tensor);
  check(found == it->second, "[restore] {}: expected '{}' with the checksum {} it was saved with, got {}: damaged",
        path, name, it->second, found);
}

std::unique_ptr<kernels::Plan> plan_restore(const kernels::PlanRequest& request) {
  const auto& a = request.attrs.as<op::RestoreAttrs>();
  const TensorType type{a.dtype, a.shape};
  const bool with_step = op::is_numbered(a.file);
  return kernels::make_plan([file = a.file.str(), name = a.name.str(), type, with_step](const kernels::Launch& launch) {
    const std::string path = path_of(file, with_step, launch);
    const data::SafetensorsFile saved = data::SafetensorsFile::open(path).value();
    const Tensor tensor = saved.tensor(name);
    check(tensor.type() == type, "[restore] {}: expected '{}' of {}, got {}", path, name, to_string(type),
          to_string(tensor.type()));
    check_undamaged(saved, path, name, tensor);
    const auto bytes = data::host_bytes(tensor);
    if (!bytes.empty()) std::memcpy(launch.out[0], bytes.data(), bytes.size());
  });
}

}  // namespace

void register_train_saved_tensors(kernels::KernelTable& table) {
  table.add("save", DeviceKind::cpu, {"reference", kernels::Accepts::contiguous, plan_save});
  table.add("saved_elsewhere", DeviceKind::cpu, {"reference", kernels::Accepts::contiguous, plan_saved_elsewhere});
  table.add("restore", DeviceKind::cpu, {"reference", kernels::Accepts::contiguous, plan_restore});
}

}  // namespace starling::train
