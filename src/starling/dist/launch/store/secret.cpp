#include "starling/dist/launch/store/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>

#include "starling/base/file/file.h"

namespace starling::dist {
namespace {

constexpr std::size_t kMostSecret = 4096;

std::string read_secret_file(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  check(static_cast<bool>(fd), "[secret] could not open {}: {}", file.string(), errno_text());
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail("[secret] could not look at {}: {}", file.string(), errno_text());
  check((status.st_mode & 077) == 0,
        "[secret] expected {} to be readable by its owner alone (chmod 600), got mode {:03o}", file.string(),
        status.st_mode & 0777U);
  std::string secret = read_file(fd, file.string(), kMostSecret).value();
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  check(!secret.empty(), "[secret] expected a secret in {}, got an empty file", file.string());
  return secret;
}

}  // namespace

std::string read_secret(const std::filesystem::path& file, const Variables& variables) {
  std::string secret, from = "STARLING_SECRET";
  if (!file.empty()) {
    secret = read_secret_file(from = file.string());
  } else if (const auto given = variables("STARLING_SECRET")) {
    secret = *given;
  } else if (const auto named = variables("STARLING_SECRET_FILE")) {
    secret = read_secret_file(from = *named);
  } else {
    return "";
  }
  check(secret.size() >= kLeastSecret, "[secret] expected at least {} characters in {}, got {}", kLeastSecret, from,
        secret.size());
  return secret;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::getrandom(bytes.data() + done, count - done, 0);
    if (got < 0 && errno == EINTR) continue;
    check(got > 0, "[secret] no random bytes: {}", errno_text());
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::string make_secret() {
  std::string text;
  for (const char c : random_bytes(32)) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace starling::dist
