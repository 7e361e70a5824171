// SPDX-License-Identifier: Apache-2.0
#include "tests/damage/damage_hdf5.h"

#include <hdf5.h>

#include <algorithm>
#include <vector>

#include "quant/file/hdf5_handle.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::damage {
namespace {

using Names = std::vector<std::string>;

Names Objects(hid_t file, H5O_type_t type) {
  struct Found {
    Names names;
    H5O_type_t type;
  } found{{}, type};
  H5Ovisit3(
      file, H5_INDEX_NAME, H5_ITER_INC,
      [](hid_t, const char* name, const H5O_info2_t* info, void* to) {
        auto* const out = static_cast<Found*>(to);
        if (info->type == out->type && std::string(name) != ".") out->names.emplace_back(name);
        return herr_t{0};
      },
      &found, H5O_INFO_BASIC);
  std::ranges::sort(found.names);
  return found.names;
}

Names Attributes(hid_t object) {
  Names names;
  H5Aiterate2(
      object, H5_INDEX_NAME, H5_ITER_INC, nullptr,
      [](hid_t, const char* name, const H5A_info_t*, void* to) {
        static_cast<Names*>(to)->emplace_back(name);
        return herr_t{0};
      },
      &names);
  return names;
}

void Put(hid_t object, const std::string& key, hid_t type, const void* value) {
  if (H5Aexists(object, key.c_str()) > 0) H5Adelete(object, key.c_str());
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute(H5Acreate2(object, key.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  H5Awrite(attribute, type, value);
}

void PutText(hid_t object, const std::string& key, const std::string& text) {
  const Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, std::max<size_t>(1, text.size()));
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  Put(object, key, type, text.empty() ? "" : text.data());
}

std::vector<std::byte> Values(hid_t dataset) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  const hsize_t size = H5Dget_storage_size(dataset);
  std::vector<std::byte> values(size < (1u << 26) ? size : 0);
  if (!values.empty()) H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  return values;
}

void ChangeValues(hid_t dataset, Random& random) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  std::vector<std::byte> values = Values(dataset);
  if (values.empty()) return;
  const size_t width = H5Tget_size(type), at = random.Below(values.size() / width) * width;
  const auto byte = static_cast<std::byte>(std::vector<int>{0, 1, 0x7f, 0x80, 0xff}[random.Below(5)]);
  for (size_t i = at; i < std::min(values.size(), at + width * (random.OneIn(3) ? values.size() : 1)); ++i)
    values[i] = random.OneIn(3) ? static_cast<std::byte>(random.Bits()) : byte;
  H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
}

// A dataset of the name, of some shape, type and layout, in the place of the one that is there.
void ReplaceDataset(hid_t file, const std::string& name, Random& random) {
  const std::vector<hid_t> types{H5T_STD_I8LE,  H5T_STD_U8LE,   H5T_STD_I16LE,  H5T_STD_U16BE, H5T_STD_I64LE,
                                 H5T_STD_U64LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_C_S1};
  const std::vector<hsize_t> lengths{0, 1, 2, 3, 4, 16, 100, 340, hsize_t{1} << 33, hsize_t{1} << 62};
  hsize_t dims[3] = {random.Of(lengths), random.Of(lengths), random.Of(lengths)};
  H5Ldelete(file, name.c_str(), H5P_DEFAULT);
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(random.Below(4)), dims, nullptr), H5Sclose);
  const Hdf5Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (random.OneIn(2)) {
    const hsize_t chunk[3] = {2, 2, 2};
    H5Pset_chunk(create, H5Sget_simple_extent_ndims(space), chunk);
    if (random.OneIn(3)) H5Pset_deflate(create, 9);
    if (random.OneIn(3)) H5Pset_fletcher32(create);
    if (random.OneIn(3)) H5Pset_scaleoffset(create, H5Z_SO_INT, 2);
  } else if (random.OneIn(3)) {
    H5Pset_external(create, "/etc/passwd", 0, H5F_UNLIMITED);
  } else if (random.OneIn(3)) {
    H5Pset_layout(create, H5D_COMPACT);
  }
  const Hdf5Handle made(H5Dcreate2(file, name.c_str(), random.Of(types), space, H5P_DEFAULT, create, H5P_DEFAULT),
                        H5Dclose);
}

void ChangeAttribute(hid_t file, Random& random) {
  Names objects = Objects(file, H5O_TYPE_DATASET);
  for (const std::string& group : Objects(file, H5O_TYPE_GROUP)) objects.push_back(group);
  objects.insert(objects.end(), 1 + objects.size() / 2, "/");
  const Hdf5Handle object(H5Oopen(file, random.Of(objects).c_str(), H5P_DEFAULT), H5Oclose);
  const Names keys = Attributes(object);
  if (keys.empty()) return;
  const std::string key = random.Of(keys);
  const std::vector<int64_t> numbers{0, 1, -1, 3, 16, 64, 1'000'000, INT64_MAX, INT64_MIN};
  const std::vector<std::string> texts{"",
                                       "x",
                                       "int8",
                                       "int4",
                                       "int6",
                                       "f32",
                                       "row",
                                       "tensor",
                                       "channel",
                                       "weights=int8/channel",
                                       "attn_logits=int4/row+static",
                                       "tare.statistics/1",
                                       "tare.quantized/9",
                                       std::string(10'000, 'a'),
                                       "\xff\xfe"};
  switch (random.Below(4)) {
    case 0:
      H5Adelete(object, key.c_str());
      break;
    case 1:
      Put(object, key, H5T_NATIVE_INT64, &random.Of(numbers));
      break;
    case 2:
      PutText(object, key, random.Of(texts));
      break;
    default: {
      const double number = random.OneIn(2) ? 0.0 / 0.0 : 1e308;
      Put(object, key, H5T_NATIVE_DOUBLE, &number);
    }
  }
}

void ChangeLink(hid_t file, Random& random) {
  Names names = Objects(file, random.OneIn(3) ? H5O_TYPE_GROUP : H5O_TYPE_DATASET);
  if (names.empty()) return;
  const std::string name = random.Of(names), other = random.Of(names);
  switch (random.Below(6)) {
    case 0:
      H5Ldelete(file, name.c_str(), H5P_DEFAULT);
      break;
    case 1:
      H5Lmove(file, name.c_str(), file, (name + "x").c_str(), H5P_DEFAULT, H5P_DEFAULT);
      break;
    case 2:  // one in the place of another
      H5Ldelete(file, other.c_str(), H5P_DEFAULT);
      H5Lcreate_hard(file, name.c_str(), file, other.c_str(), H5P_DEFAULT, H5P_DEFAULT);
      break;
    case 3:
      H5Ldelete(file, other.c_str(), H5P_DEFAULT);
      H5Lcreate_soft(random.OneIn(2) ? other.c_str() : "/", file, other.c_str(), H5P_DEFAULT, H5P_DEFAULT);
      break;
    case 4:
      H5Ldelete(file, other.c_str(), H5P_DEFAULT);
      H5Lcreate_external("/etc/passwd", "/x", file, other.c_str(), H5P_DEFAULT, H5P_DEFAULT);
      break;
    default: {
      std::string deep = "deep";
      for (size_t n = random.Below(200); n > 0; --n) deep += "/g";
      const Hdf5Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
      H5Pset_create_intermediate_group(links, 1);
      const Hdf5Handle made(H5Gcreate2(file, deep.c_str(), links, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
    }
  }
}

void Change(hid_t file, Random& random) {
  const Names datasets = Objects(file, H5O_TYPE_DATASET);
  const size_t what = datasets.empty() ? 2 : random.Below(5);
  if (what == 0) ReplaceDataset(file, random.Of(datasets), random);
  if (what == 1) ChangeLink(file, random);
  if (what == 2 || what == 3) ChangeAttribute(file, random);
  if (what != 4) return;
  const Hdf5Handle dataset(H5Dopen2(file, random.Of(datasets).c_str(), H5P_DEFAULT), H5Dclose);
  ChangeValues(dataset, random);
}

void MakeChecksums(hid_t file) {
  const Names names = Objects(file, H5O_TYPE_DATASET);
  for (const std::string& name : names) {
    const Hdf5Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
    if (dataset >= 0) PutText(dataset, "sha256", Sha256Hex(Values(dataset)));
  }
  const Hdf5Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose);
  PutText(root, "datasets", HashOfNames(names));
}

}  // namespace

std::string DamageHdf5(const std::string& file, const std::filesystem::path& scratch, Random& random) {
  const QuietHdf5 quiet;
  PutFile(scratch, file);
  {
    const Hdf5Handle open(H5Fopen(scratch.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    for (size_t n = 1 + random.Below(3); n > 0; --n) Change(open, random);
    if (random.OneIn(2)) MakeChecksums(open);
  }
  return GetFile(scratch);
}

}  // namespace tare::damage
