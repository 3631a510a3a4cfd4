#include "model/files/idx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "model/files/byte_source.hpp"
#include "model/input_file.hpp"
#include "model/memory.hpp"

namespace troupe::model {

namespace {

constexpr std::uint8_t idx_unsigned_byte = 8;
// More than any file has; below this limit no sum here overflows.
constexpr std::uint64_t idx_elements_max = std::uint64_t{1} << 48;

// The required content of a file.
struct idx_wanted {
  std::size_t dimensions_min;
  std::size_t dimensions_max;
  const char* what;
  const char* first_bytes;
  const char* dimensions;
};

constexpr idx_wanted idx_images{3, 4, "images", "00 00 08 03 or 00 00 08 04",
                                "3 (number, height, width) or 4 (number, channels, height, width)"};
constexpr idx_wanted idx_labels{1, 1, "labels", "00 00 08 01", "1 (number)"};

struct idx_content {
  std::vector<std::uint64_t> shape;
  std::unique_ptr<std::uint8_t[]> elements;
};

// Reads one file from its beginning to its end.
class idx_reader {
 public:
  idx_reader(std::shared_ptr<const input_file> file, compression how, const idx_wanted& wanted, running_digest& digest)
      : file_(std::move(file)), how_(how), wanted_(wanted), digest_(digest), source_(open_source(file_, how, 0)) {}

  result<idx_content> read() {
    idx_content made;
    TROUPE_SET(made.shape, read_shape());
    std::uint64_t elements = 1;
    for (const std::uint64_t size : made.shape) elements = bounded_product(elements, size);
    const std::string shape = fmt::format("{}", fmt::join(made.shape, " x "));
    if (elements == 0) return bad_input("{}: its shape is {}: each number must be at least 1", file_->name(), shape);
    if (elements > idx_elements_max)
      return bad_input("{}: its shape is {}: must be at most {} elements; get the file again", file_->name(), shape,
                       idx_elements_max);
    const auto other_length = [&](const std::string& length) {
      return bad_input("{}: must have {} bytes, as the shape {} in its header says, but has {}; get the file again",
                       file_->name(), header_bytes(made.shape.size()) + elements, shape, length);
    };
    if (how_ == compression::none && file_->length() != header_bytes(made.shape.size()) + elements)
      return other_length(std::to_string(file_->length()));
    if (const std::uint64_t available = available_memory(); elements > available)
      return bad_input(memory_fault(fmt::format("{}: {} {}", file_->name(), shape, wanted_.what), elements, available,
                                    "use a file with fewer"));
    made.elements = std::make_unique_for_overwrite<std::uint8_t[]>(elements);
    TROUPE_TRY(got, read_into({made.elements.get(), elements}));
    if (got < elements) return other_length(std::to_string(header_bytes(made.shape.size()) + got));
    std::uint8_t behind = 0;
    TROUPE_TRY(more, read_into({&behind, 1}));
    if (more > 0) return other_length("more");
    if (auto wrong = file_->changed()) return tl::unexpected(std::move(*wrong));
    return made;
  }

 private:
  static std::uint64_t header_bytes(std::size_t dimensions) { return 4 + 4 * dimensions; }

  result<std::vector<std::uint64_t>> read_shape() {
    std::array<std::uint8_t, 4> magic{};
    TROUPE_TRY(got, read_into(magic));
    if (got < magic.size() || magic[0] != 0 || magic[1] != 0) {
      const std::string begin = fmt::format("{:02x}", fmt::join(std::span(magic).first(got), " "));
      return bad_input("{}: {}: must be {} in the IDX format, which begins with {}", file_->name(),
                       got == 0 ? "has no bytes" : "begins with " + begin, wanted_.what, wanted_.first_bytes);
    }
    if (magic[2] != idx_unsigned_byte)
      return bad_input("{}: elements of type {:#04x}: must be unsigned bytes, type {:#04x}", file_->name(), magic[2],
                       idx_unsigned_byte);
    const std::size_t dimensions = magic[3];
    if (dimensions < wanted_.dimensions_min || dimensions > wanted_.dimensions_max)
      return bad_input("{}: {} dimension(s): {} have {}; the images' file comes first, then that of the labels",
                       file_->name(), dimensions, wanted_.what, wanted_.dimensions);
    std::vector<std::uint64_t> shape;
    for (std::size_t i = 0; i < dimensions; ++i) {
      std::array<std::uint8_t, 4> size{};
      TROUPE_TRY(bytes, read_into(size));
      if (bytes < size.size())
        return bad_input("{}: ends within its header, at byte {} of {}; get the file again", file_->name(),
                         header_bytes(i) + bytes, header_bytes(dimensions));
      std::uint64_t number = 0;
      for (const std::uint8_t byte : size) number = number << 8 | byte;
      shape.push_back(number);
    }
    return shape;
  }

  // Reads up to `to.size()` bytes and adds them to the digest; returns how many, fewer only at the end.
  result<std::uint64_t> read_into(std::span<std::uint8_t> to) {
    constexpr std::size_t most_at_once = std::size_t{16} << 20;
    std::uint64_t all = 0;
    while (all < to.size()) {
      const auto rest = to.subspan(all, std::min(to.size() - all, most_at_once));
      TROUPE_TRY(got, source_->read(reinterpret_cast<char*>(rest.data()), rest.size()));
      if (got == 0) break;
      digest_.add(std::as_bytes(rest.first(got)));
      all += got;
    }
    return all;
  }

  std::shared_ptr<const input_file> file_;
  compression how_;
  const idx_wanted& wanted_;
  running_digest& digest_;
  std::unique_ptr<byte_source> source_;
};

result<idx_content> read_idx(const std::string& path, const idx_wanted& wanted, running_digest& digest) {
  TROUPE_TRY(file, open_data_file(path));
  TROUPE_TRY(how, compression_of(*file));
  return idx_reader(file, how, wanted, digest).read();
}

}  // namespace

std::optional<image_files> image_files_of(std::string_view text) {
  const auto parts = split(text, ',');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) return std::nullopt;
  return image_files{std::string(parts[0]), std::string(parts[1])};
}

result<labeled_images> read_images(const image_files& files) {
  running_digest digest;
  TROUPE_TRY(images, read_idx(files.images, idx_images, digest));
  TROUPE_TRY(labels, read_idx(files.labels, idx_labels, digest));
  if (images.shape[0] != labels.shape[0])
    return bad_input("{}: {} images, but {} has {} labels: must be as many", printable_path(files.images),
                     images.shape[0], printable_path(files.labels), labels.shape[0]);
  labeled_images made;
  if (images.shape.size() == 3) made.shape.append(1);
  for (std::size_t i = 1; i < images.shape.size(); ++i) made.shape.append(images.shape[i]);
  made.rows = images.shape[0];
  made.pixels = std::move(images.elements);
  made.labels = std::move(labels.elements);
  made.digest = digest.hex();
  return made;
}

}  // namespace troupe::model
