#include "protocol/schema.hpp"

#include <caf/detail/meta_object.hpp>
#include <caf/serializer.hpp>
#include <cstddef>
#include <memory>

#include "protocol/messages.hpp"

namespace troupe::protocol {

namespace {

/// Writes the types that an inspect function visits, not the values.
class schema_writer : public caf::serializer {
 public:
  using caf::serializer::serializer;

  bool begin_object(caf::type_id_t, caf::string_view) override { return add("{"); }
  bool end_object() override { return add("}"); }
  bool begin_field(caf::string_view name) override { return add_name(name); }
  bool begin_field(caf::string_view name, bool) override { return add_name(name) && add("optional "); }
  bool begin_field(caf::string_view name, caf::span<const caf::type_id_t>, std::size_t) override {
    return add_name(name) && add("one of ");
  }
  bool begin_field(caf::string_view name, bool, caf::span<const caf::type_id_t>, std::size_t) override {
    return add_name(name) && add("optional one of ");
  }
  bool end_field() override { return add(","); }
  bool begin_tuple(std::size_t) override { return add("("); }
  bool end_tuple() override { return add(")"); }
  bool begin_sequence(std::size_t) override { return add("["); }
  bool end_sequence() override { return add("]"); }

  bool value(caf::byte) override { return add("byte "); }
  bool value(bool) override { return add("bool "); }
  bool value(std::int8_t) override { return add("i8 "); }
  bool value(std::uint8_t) override { return add("u8 "); }
  bool value(std::int16_t) override { return add("i16 "); }
  bool value(std::uint16_t) override { return add("u16 "); }
  bool value(std::int32_t) override { return add("i32 "); }
  bool value(std::uint32_t) override { return add("u32 "); }
  bool value(std::int64_t) override { return add("i64 "); }
  bool value(std::uint64_t) override { return add("u64 "); }
  bool value(float) override { return add("f32 "); }
  bool value(double) override { return add("f64 "); }
  bool value(long double) override { return add("f80 "); }
  bool value(caf::string_view) override { return add("text "); }
  bool value(const std::u16string&) override { return add("text16 "); }
  bool value(const std::u32string&) override { return add("text32 "); }
  bool value(caf::span<const caf::byte>) override { return add("bytes "); }

  std::string text;

 private:
  bool add(const char* what) {
    text += what;
    return true;
  }
  bool add_name(caf::string_view name) {
    text.append(name.data(), name.size());
    return add(":");
  }
};

}  // namespace

std::vector<std::pair<std::string, std::string>> message_schema() {
  std::vector<std::pair<std::string, std::string>> schema;
  for (caf::type_id_t id = caf::id_block::troupe::begin; id < caf::id_block::troupe::end; ++id) {
    const caf::detail::meta_object* type = caf::detail::global_meta_object(id);
    const auto memory = std::make_unique<std::max_align_t[]>(type->padded_size / sizeof(std::max_align_t) + 1);
    type->default_construct(memory.get());
    schema_writer writer;
    type->save(writer, memory.get());
    type->destroy(memory.get());
    schema.emplace_back(std::string(type->type_name.data(), type->type_name.size()), std::move(writer.text));
  }
  return schema;
}

}  // namespace troupe::protocol
