#include "starling/dist/comm/shared/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "starling/base/error.h"
#include "starling/ops/def/attrs/random.h"

namespace starling::dist {
namespace {

constexpr std::size_t kPage = 4096;

std::uint64_t random_key() {
  std::uint64_t key = 0;
  if (getrandom(&key, sizeof(key), 0) != sizeof(key))
    fail("[shared] expected random bytes from the system, got: {}", std::strerror(errno));
  return key;
}

std::uint64_t& key_of(std::byte* data, std::size_t bytes) {
  return *reinterpret_cast<std::uint64_t*>(data + bytes - sizeof(std::uint64_t));
}

}  // namespace

Mapping::Mapping(int file, std::size_t bytes, std::uint64_t key) : file_(file), bytes_(bytes), key_(key) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(file);
    fail("[shared] expected to map {} bytes of memory for all ranks, got: {}; a smaller arena may fit", bytes,
         std::strerror(error));
  }
  data_ = static_cast<std::byte*>(data);
  madvise(data, bytes, MADV_DONTDUMP);
  madvise(data, bytes, MADV_HUGEPAGE);  // if the host allows huge pages for shared memory; else 4 KiB pages
}

Mapping::~Mapping() {
  close();
  munmap(data_, bytes_);
}

std::shared_ptr<Mapping> Mapping::create(std::size_t bytes) {
  bytes = (bytes + kPage - 1) / kPage * kPage + kPage;
  const int file = memfd_create("starling", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  check(file >= 0, "[shared] expected memory to share from memfd_create, got: {}", std::strerror(errno));
  const bool made = fchmod(file, S_IRUSR | S_IWUSR) == 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0;
  const int error = errno;
  // Sealed, so that no process can shrink it while others use it.
  if (!made || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    ::close(file);
    fail("[shared] expected {} bytes of memory to share, got: {}", bytes, std::strerror(error));
  }
  std::shared_ptr<Mapping> mapping(new Mapping(file, bytes, random_key()));
  key_of(mapping->data_, bytes) = mapping->key_;
  return mapping;
}

std::string Mapping::address() const {
  const ProcessId own = this_process();
  return fmt::format("{} {} {} {} {:x}", own.pid, own.start, file_, bytes_, key_);
}

std::shared_ptr<Mapping> Mapping::open(const std::string& address) {
  int pid = 0, remote = 0;
  unsigned long long start = 0, bytes = 0, key = 0;
  check(std::sscanf(address.c_str(), "%d %llu %d %llu %llx", &pid, &start, &remote, &bytes, &key) == 5,
        "[shared] expected the address of shared memory in the store, got '{}'", address);
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, remote);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  check(
      file >= 0,
      "[shared] expected to open the memory of process {} at {}, got: {}; ranks that share memory are processes of one "
      "user on one host, in one container",
      pid, path, std::strerror(errno));
  struct stat found {};
  const bool fits = fstat(file, &found) == 0 && found.st_uid == geteuid() && S_ISREG(found.st_mode) &&
                    found.st_size == static_cast<off_t>(bytes);
  if (!fits) {
    ::close(file);
    fail("[shared] expected {} bytes of this user's memory at {}, got {} of user {}", bytes, path, found.st_size,
         found.st_uid);
  }
  std::shared_ptr<Mapping> mapping(new Mapping(file, bytes, key));
  check(key_of(mapping->data_, bytes) == key, "[shared] expected the memory that process {} made at {}, got another",
        pid, path);
  mapping->close();
  return mapping;
}

void Mapping::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

bool Mapping::populate(std::size_t offset, std::size_t bytes) const {
  const std::size_t begin = offset / kPage * kPage;
#ifdef MADV_POPULATE_WRITE
  if (madvise(data_ + begin, offset + bytes - begin, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  for (std::size_t at = begin; at < offset + bytes; at += kPage) {  // older kernels: touch pages one by one
    reinterpret_cast<volatile std::byte&>(data_[at]) = data_[at];
  }
  return true;
}

void Mapping::release(std::size_t offset, std::size_t bytes) const {
  const std::size_t begin = (offset + kPage - 1) / kPage * kPage, end = (offset + bytes) / kPage * kPage;
  if (begin < end) madvise(data_ + begin, end - begin, MADV_REMOVE);
}

}  // namespace starling::dist
