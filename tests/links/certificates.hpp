// Certificates that tests make as they need them, in a folder that goes away with them.

#pragma once

#include <memory>
#include <string>

#include "links/credentials.hpp"

struct evp_pkey_st;
struct x509_st;

namespace troupe {

class private_folder {
 public:
  private_folder();
  ~private_folder();
  private_folder(const private_folder&) = delete;
  private_folder& operator=(const private_folder&) = delete;

  /// Writes a file that only its owner may read.
  std::string write(const std::string& name, const std::string& text) const;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Signs certificates. `seconds_left` until they expire: negative for those that have.
class authority {
 public:
  explicit authority(const std::string& name, long seconds_left = 3600);

  /// Files of a certificate, its key, and this authority's certificate. `padding` makes the certificate longer.
  tls_files issue(const std::string& name, long seconds_left = 3600, std::size_t padding = 0) const;

  const private_folder& folder() const { return folder_; }

 private:
  private_folder folder_;
  std::string name_;
  std::shared_ptr<evp_pkey_st> key_;
  std::shared_ptr<x509_st> certificate_;
};

}  // namespace troupe
