"""Transposed convolutions beside the ten of the tables: problems of KernelBench, layers of published networks, and shapes
that are odd on purpose. Extents and channels are the networks'; batches are what one GPU trains with."""

from layers import Layer


def _pair(value):
    return value if isinstance(value, tuple) else (value, value)


def line(name, batch, channels, length, kernel, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    """A 1-D layer; channels: (in, out)."""
    attributes = [(value, value) for value in (stride, padding, output_padding, dilation)]
    return Layer(name, batch, *channels, (length,), (kernel,), *attributes, groups)


def plane(name, batch, channels, extents, kernel, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    """A 2-D layer; channels: (in, out). What is the same along both axes is given once."""
    attributes = map(_pair, (stride, padding, output_padding, dilation))
    return Layer(name, batch, *channels, _pair(extents), _pair(kernel), *attributes, groups)


KERNEL_BENCH = [
    plane("KernelBench 1/57", 8, (64, 64), 1024, 3),
    plane("KernelBench 1/65", 8, (64, 64), 512, (3, 7)),
    plane("KernelBench 1/69", 64, (64, 128), (128, 256), (3, 5)),
    plane("KernelBench 1/71", 8, (32, 32), (512, 1024), 3),
    plane("KernelBench 1/75", 16, (32, 64), (128, 256), (3, 5), (2, 3), (1, 2), dilation=(2, 1), groups=4),
    line("KernelBench 1/79", 16, (32, 64), 131072, 3, 2, 1, dilation=2),
    plane("KernelBench 1/81", 16, (32, 64), (64, 128), 3, 5, 1, dilation=2),
    plane("KernelBench 2/1", 32, (64, 64), 128, 3, 2, 1, 1),
    plane("KernelBench 2/2", 128, (64, 64), 128, 3, 2, 1, 1),
    plane("KernelBench 2/5", 32, (64, 64), 256, 4, 2, 1, 1),
    plane("KernelBench 2/10", 128, (64, 64), 256, 3, padding=1),
    plane("KernelBench 2/42", 16, (64, 128), 512, 3),
    plane("KernelBench 2/91", 128, (64, 128), 64, 4, 2, 1, 1),
    plane("KernelBench 2/93", 128, (64, 128), 64, 4, 2),
]

GENERATORS = [
    plane("DCGAN opening", 128, (100, 1024), 1, 4),
    plane("DCGAN 4x4", 128, (1024, 512), 4, 4, 2, 1),
    plane("DCGAN 16x16", 128, (256, 128), 16, 4, 2, 1),
    plane("DCGAN to RGB", 128, (64, 3), (64, 64), 4, 2, 1),
    plane("DCGAN k5 4x4", 64, (1024, 512), 4, 5, 2, 2, 1),
    plane("CelebA 2x2", 144, (512, 256), 2, 3, 2, 1, 1),
    plane("CelebA 8x8", 144, (256, 128), 8, 3, 2, 1, 1),
    plane("MNIST 7x7", 256, (128, 64), 7, 4, 2, 1),
    plane("MNIST to grey", 256, (64, 1), 14, 4, 2, 1),
    plane("pix2pix 1x1", 16, (512, 512), 1, 4, 2, 1),
    plane("pix2pix 4x4", 16, (1024, 512), 4, 4, 2, 1),
    plane("pix2pix 16x16", 16, (1024, 512), 16, 4, 2, 1),
    plane("pix2pix 64x64", 16, (256, 64), 64, 4, 2, 1),
    plane("pix2pix to RGB", 16, (128, 3), 128, 4, 2, 1),
    plane("CycleGAN 64x64", 8, (256, 128), 64, 3, 2, 1, 1),
    plane("CycleGAN 128x128", 8, (128, 64), 128, 3, 2, 1, 1),
    plane("StarGAN 32x32", 16, (256, 128), 32, 4, 2, 1),
    plane("StyleGAN2 8x8", 32, (512, 512), 8, 3, 2),
    plane("StyleGAN2 32x32", 32, (512, 512), 32, 3, 2),
    plane("StyleGAN2 128x128", 16, (256, 128), 128, 3, 2),
]

SEGMENTATION = [
    plane("U-Net 32x32", 16, (1024, 512), 32, 2, 2),
    plane("U-Net 128x128", 16, (128, 64), 128, 2, 2),
    plane("U-Net 23x30", 8, (1024, 512), (23, 30), 2, 2),
    plane("U-Net 184x240", 8, (128, 64), (184, 240), 2, 2),
    plane("nnU-Net 8x8", 12, (512, 512), 8, 2, 2),
    plane("nnU-Net 256x256", 12, (64, 32), 256, 2, 2),
    plane("FCN-32s", 4, (21, 21), 16, 64, 32),
    plane("FCN-8s 2x", 4, (21, 21), 32, 4, 2),
    plane("FCN-8s 8x", 4, (21, 21), 64, 16, 8),
    plane("DeconvNet opening", 16, (4096, 512), 1, 7),
    plane("DeconvNet 14x14", 16, (512, 512), 14, 3, padding=1),
    plane("DeconvNet 112x112", 16, (128, 64), 112, 3, padding=1),
    plane("ENet", 16, (32, 32), 128, 3, 2, 1, 1),
    plane("ERFNet 64x128", 12, (128, 64), (64, 128), 3, 2, 1, 1),
    plane("ERFNet classes", 12, (16, 20), (256, 512), 2, 2),
    plane("LinkNet 32x64", 12, (128, 128), (32, 64), 3, 2, 1, 1),
    plane("SegNet-like k3 20x20", 16, (512, 256), 20, 3, 2, 1, 1),
]

DETECTION = [
    plane("Mask R-CNN mask head", 100, (256, 256), 14, 2, 2),
    plane("keypoint head", 100, (512, 17), 14, 4, 2, 1),
    plane("pose head 8x6", 64, (2048, 256), (8, 6), 4, 2, 1),
    plane("pose head 32x24", 64, (256, 256), (32, 24), 4, 2, 1),
    plane("CenterNet 64x64", 16, (256, 256), 64, 4, 2, 1),
    plane("CenterNet bilinear", 16, (256, 256), 64, 4, 2, 1, groups=256),
    plane("PointPillars 4x", 4, (256, 128), (62, 54), 4, 4),
    plane("PointPillars 2x", 4, (128, 128), (124, 108), 2, 2),
    plane("PointPillars 1x", 4, (64, 128), (248, 216), 1),
    plane("ViTDet 32x32", 8, (768, 384), 32, 2, 2),
    plane("ViTDet 64x64", 8, (384, 192), 64, 2, 2),
    plane("SAM decoder 64x64", 8, (256, 64), 64, 2, 2),
    plane("SAM decoder 128x128", 8, (64, 32), 128, 2, 2),
    plane("DPT 4x", 8, (96, 96), 24, 4, 4),
    plane("DPT 2x", 8, (192, 192), 24, 2, 2),
    plane("YOLOv8 prototypes", 16, (256, 256), 80, 2, 2),
]

FLOW_AND_PIXELS = [
    plane("FlowNet 6x8", 8, (1024, 512), (6, 8), 4, 2, 1),
    plane("FlowNet 24x32", 8, (770, 128), (24, 32), 4, 2, 1),
    plane("FlowNet flow", 8, (2, 2), (48, 64), 4, 2, 1),
    plane("PWC-Net features", 8, (597, 2), (56, 128), 4, 2, 1),
    plane("VQ-VAE 64x64", 32, (128, 64), 64, 4, 2, 1),
    plane("VQ-VAE to RGB", 32, (64, 3), 128, 4, 2, 1),
    plane("FSRCNN 2x", 16, (56, 1), 128, 9, 2, 4, 1),
    plane("FSRCNN 4x", 16, (56, 1), 64, 9, 4, 4, 3),
    plane("LapSRN 2x", 16, (64, 64), 128, 4, 2, 1),
    plane("DBPN 4x", 8, (64, 64), 64, 8, 4, 2),
    plane("DBPN 8x", 8, (64, 64), 32, 12, 8, 2),
    plane("cloth warping 1x1", 8, (256, 256), 32, 1),
    plane("compression 5x5", 8, (192, 192), 32, 5, 2, 2, 1),
    plane("compression to RGB", 8, (192, 3), 128, 5, 2, 2, 1),
]

AUDIO = [
    line("HiFi-GAN u1", 16, (256, 128), 4096, 16, 8, 4),
    line("HiFi-GAN u3", 16, (64, 32), 65536, 4, 2, 1),
    line("HiFi-GAN v3 u0", 16, (256, 128), 32, 16, 8, 4),
    line("HiFi-GAN one utterance", 1, (512, 256), 283, 16, 8, 4),
    line("BigVGAN u0", 8, (1536, 768), 128, 8, 4, 2),
    line("BigVGAN u2", 8, (384, 192), 2048, 4, 2, 1),
    line("MelGAN u2", 16, (128, 64), 2048, 4, 2, 1),
    line("EnCodec 8x", 16, (512, 256), 320, 16, 8),
    line("EnCodec 5x", 16, (256, 128), 4096, 10, 5, 2, 1),
    line("EnCodec 2x", 16, (64, 32), 64000, 4, 2),
    line("DAC 8x", 12, (1536, 768), 64, 16, 8, 4),
    line("Demucs 8 -> 4", 8, (512, 256), 5168, 8, 4),
    line("Demucs to stereo", 8, (64, 2), 110000, 8, 4),
    line("Conv-TasNet decoder", 8, (512, 1), 3999, 16, 8),
    line("WaveGAN k25", 64, (512, 256), 64, 25, 4, 11, 1),
    line("WaveGAN to sound", 64, (64, 1), 4096, 25, 4, 11, 1),
    line("WaveGlow spectrogram", 12, (80, 80), 63, 1024, 256),
    line("SEGAN 8", 50, (2048, 512), 8, 31, 2, 15, 1),
    line("SEGAN 512", 50, (256, 64), 512, 31, 2, 15, 1),
    line("inverse STFT", 16, (1026, 1), 1024, 1024, 256),
]

ODD = [
    plane("2-D k3", 8, (64, 64), 512, 3),
    line("odd length", 16, (96, 80), 40007, 7, 3, 2),
    line("length 777", 64, (256, 256), 777, 3, padding=1),
    plane("odd plane", 16, (48, 40), (127, 129), 3, 2, 1, 1),
    plane("odd channels", 16, (67, 35), 200, 3, padding=1),
    plane("65 -> 33 strided dilated", 8, (65, 33), (63, 65), (3, 5), (2, 3), (1, 2), (1, 2), (3, 2)),
    plane("8 groups", 16, (256, 256), 64, 4, 2, 1, groups=8),
    plane("8 groups dilated", 16, (256, 256), 61, 3, 2, 2, 1, 2, 8),
    plane("32 groups", 16, (512, 512), 32, 3, 2, 1, 1, groups=32),
    plane("4 channels a group", 16, (256, 256), 64, 4, 2, 1, groups=64),
    plane("depthwise k3", 16, (384, 384), 56, 3, 2, 1, 1, groups=384),
    plane("depthwise k7 dilated", 8, (128, 128), 96, 7, padding=9, dilation=3, groups=128),
    line("depthwise 1-D", 16, (512, 512), 8192, 4, 2, 1, groups=512),
    plane("one image, deep", 1, (512, 512), 64, 3, 2, 1, 1),
    plane("one image, wide", 1, (64, 32), 1024, 4, 2, 1),
    plane("k5 stride 3", 16, (128, 96), 45, 5, 3, 1, 1),
    plane("k2 stride 1", 16, (256, 256), 33, 2),
    plane("k1 stride 2", 16, (128, 128), 64, 1, 2, 0, 1),
]

OTHER_LAYERS = KERNEL_BENCH + GENERATORS + SEGMENTATION + DETECTION + FLOW_AND_PIXELS + AUDIO + ODD
