// What a run leaves behind: numbers, curves, and pictures side by side.
#pragma once

#include "training.h"

#include <adjoint/core/device.h>

#include <filesystem>

namespace super_resolution {

/// metrics.json: psnr_bicubic, psnr_adjoint (dB, means over the validation pictures, of large ones the middle),
/// seconds, device, the curve, and every picture's figures. Replaced atomically.
void write_metrics(const std::filesystem::path& path, const Trainer& trainer);

/// curves.png: loss and validation PSNR against seconds of training.
void write_curves(const std::filesystem::path& path, const Trainer& trainer);

/// comparison.png: pieces of up to three validation pictures, each as the network sees it, enlarged bicubically,
/// enlarged by the model, and as it was; with the whole picture's PSNR.
void write_comparison(const std::filesystem::path& path, const Trainer& trainer);

}  // namespace super_resolution
