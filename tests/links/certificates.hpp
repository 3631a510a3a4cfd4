// Certificates that tests make on demand, in a folder that is removed with them.

#pragma once

#include <memory>
#include <string>

#include "cluster/links/tls_context.hpp"

struct evp_pkey_st;
struct x509_st;

namespace troupe::links {

class secrets_folder {
 public:
  secrets_folder();
  ~secrets_folder();
  secrets_folder(const secrets_folder&) = delete;
  secrets_folder& operator=(const secrets_folder&) = delete;

  /// Writes a file that only its owner may read.
  std::string write(const std::string& name, const std::string& text) const;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Returns the fingerprint of the certificate in these files, in the links' format.
std::string fingerprint_of(const tls_files& files);

/// Signs certificates. `seconds_left` until they expire; negative for expired ones.
class authority {
 public:
  explicit authority(const std::string& name, long seconds_left = 3600);

  /// Issues the files of a certificate, its key, and this authority's certificate. `padding` makes the certificate
  /// longer. `names` is its subjectAltName in the syntax of OpenSSL's configuration files; empty for none.
  tls_files issue(const std::string& name, long seconds_left = 3600, std::size_t padding = 0,
                  const std::string& names = "IP:127.0.0.1,DNS:localhost") const;

  const secrets_folder& folder() const { return folder_; }

 private:
  secrets_folder folder_;
  std::string name_;
  std::shared_ptr<evp_pkey_st> key_;
  std::shared_ptr<x509_st> certificate_;
};

}  // namespace troupe::links
