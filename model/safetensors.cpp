#include "model/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "model/text.hpp"

namespace troupe {

static_assert(std::endian::native == std::endian::little, "tensors are read as they are in the file");

namespace {

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t header_max = 100'000'000;

// Fills `to` with the file's bytes from `offset` on; returns what went wrong, if anything.
std::optional<std::string> read_at(int descriptor, std::uint64_t offset, void* to, std::uint64_t size) {
  auto* next = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = ::pread(descriptor, next, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fmt::format("reading at byte {}: {}", offset, std::strerror(errno));
    if (got == 0) return fmt::format("ends at byte {} while it is being read: was it cut?", offset);
    next += got;
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::uint64_t>(got);
  }
  return std::nullopt;
}

}  // namespace

result<safetensors_file> safetensors_file::open(const std::string& path) {
  const std::string shown = printable(path);
  const auto refuse = [&shown](const std::string& why) { return bad_input(fmt::format("{}: {}", shown, why)); };
  // Without O_NONBLOCK a named pipe would wait for a writer.
  safetensors_file file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.descriptor_ < 0 || ::fstat(file.descriptor_, &status) != 0) return refuse(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return refuse("not a regular file: must be a safetensors file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < length_bytes)
    return refuse(fmt::format("{} bytes: a safetensors file has at least {}", size, length_bytes));

  std::uint64_t header_size = 0;
  if (auto wrong = read_at(file.descriptor_, 0, &header_size, length_bytes)) return refuse(*wrong);
  const std::uint64_t limit = std::min(size - length_bytes, header_max);
  if (header_size > limit) {
    return refuse(fmt::format("header of {} bytes: must be at most {} in this file; is it a safetensors file?",
                              header_size, limit));
  }
  std::string json(header_size, '\0');
  if (auto wrong = read_at(file.descriptor_, length_bytes, json.data(), header_size)) return refuse(*wrong);
  file.data_begin_ = length_bytes + header_size;
  auto header = parse_safetensors_header(json, size - file.data_begin_);
  if (!header) return refuse(header.error().message);
  file.header_ = std::move(*header);
  return file;
}

safetensors_file::safetensors_file(safetensors_file&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_begin_(other.data_begin_),
      header_(std::move(other.header_)) {}

safetensors_file& safetensors_file::operator=(safetensors_file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_begin_, other.data_begin_);
  std::swap(header_, other.header_);
  return *this;
}

safetensors_file::~safetensors_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

const tensor_entry* safetensors_file::find(std::string_view name) const {
  const auto found = header_.tensors.find(name);
  return found == header_.tensors.end() ? nullptr : &found->second;
}

result<const tensor_entry*> safetensors_file::known(std::string_view name) const {
  if (const auto* entry = find(name)) return entry;
  return bad_input(fmt::format("{}: tensor {} is missing", printable(path_), printable(name)));
}

template <class T>
result<std::vector<T>> safetensors_file::read_as(const tensor_entry& entry) const {
  std::vector<T> values((entry.end - entry.begin) / sizeof(T));
  if (auto wrong = read_at(descriptor_, data_begin_ + entry.begin, values.data(), entry.end - entry.begin)) {
    return bad_input(fmt::format("{}: {}", printable(path_), *wrong));
  }
  return values;
}

template <class To>
result<std::vector<To>> safetensors_file::read_reals(std::string_view name) const {
  const auto entry = known(name);
  if (!entry) return tl::unexpected(entry.error());
  const auto convert = [](const auto& values) -> result<std::vector<To>> {
    if (!values) return tl::unexpected(values.error());
    return std::vector<To>(values->begin(), values->end());
  };
  if ((*entry)->type == tensor_type::f32) return convert(read_as<float>(**entry));
  if ((*entry)->type == tensor_type::f64) return convert(read_as<double>(**entry));
  return bad_input(fmt::format("{}: tensor {} of type {}: must be F32 or F64", printable(path_), printable(name),
                               type_name((*entry)->type)));
}

result<std::vector<float>> safetensors_file::read_floats(std::string_view name) const {
  return read_reals<float>(name);
}

result<std::vector<double>> safetensors_file::read_doubles(std::string_view name) const {
  return read_reals<double>(name);
}

result<std::vector<std::int64_t>> safetensors_file::read_integers(std::string_view name) const {
  const auto entry = known(name);
  if (!entry) return tl::unexpected(entry.error());
  if ((*entry)->type == tensor_type::i64) return read_as<std::int64_t>(**entry);
  return bad_input(fmt::format("{}: tensor {} of type {}: must be I64", printable(path_), printable(name),
                               type_name((*entry)->type)));
}

result<std::vector<std::byte>> safetensors_file::read_bytes(std::string_view name) const {
  const auto entry = known(name);
  if (!entry) return tl::unexpected(entry.error());
  return read_as<std::byte>(**entry);
}

}  // namespace troupe
