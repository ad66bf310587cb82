"""The differences that differential.py finds and that are not errors of Adjoint's."""

# These cases keep their shapes: their functions contain their examples' extents, or PyTorch does not check their labels
# against the classes and would write outside its memory.
FIXED = r"^(ctc_loss|gradient_penalty|overlap_add|pixel_(un)?shuffle|scaled_dot_product_attention/gqa)"

# {reason: pattern of the text on such a run}. The text is the run, a colon, and the first difference.
KNOWN = {
    "any and all give bool, PyTorch's of uint8 give uint8": r"^(any|all)(/all)? in uint8.*torch.bool for torch.uint8",
    "PyTorch names any of several equal elements": r"^(topk|kthvalue|median/(axis|keepdim)).*: (result 1|gradient 0)",
    "a search in elements that are not sorted": r"^searchsorted.*: result 0",
    "a norm below eps is a constant, but not in PyTorch's gradient": r"^cosine_similarity.*: gradient",
    "several largest differences share the gradient, while each has all of it in PyTorch": r"^cdist/inf.*: gradient",
    "log_softmax in front of ctc_loss rounds": r"^ctc_loss.* in b?float16.*: (result|gradient) 0",
    "a label must not be the blank, which PyTorch does not check": r"^ctc_loss.*: refused: .*not the blank",
    "an activation that no norm computes in its own pass rounds again": r"^batch_norm/gelu in b?float16.*result 0",
    "a mean over no classes is 0, PyTorch's is 0 / 0": r"^cross_entropy/(prob|soft).*, 0\b.*got 0, expected nan",
    "a magnitude of 0 has no direction, and one near 0 has any":
        r"^(spectrogram/magnitude|mel_|multi_resolution_stft_loss).*: gradient [01]",
    "a norm of equal elements multiplies roundings": r"^\w+_norm\b.* expanded.*: (result|gradient)",
    "a row's norm is rounded, as PyTorch's is": r"^embedding_renorm_.* in b?float16.*result 0",
    "a norm's parameters get 0 from no elements": r"^group_norm.*[(,] 0\b.*gradient [12]: .*got 0, expected nan",
    "the gradient of a norm over no elements": r"^gradient_penalty/empty.*got 0, expected nan",
    "the second derivative of a norm of zeros": r"^gradient_penalty/target.*got 0, expected nan",
    "snake with a of 0 is its limit": r"^snake/each.*gradient 0.*expected nan",
    "only the last of equal places is read": r"^(max_unpool|scatter).* expanded.*: gradient [02]",
    "without a beta the gradient of a tie is arbitrary": r"^smooth_l1_loss/zero_beta.*: gradient",
    "the registry's divisor wraps around": r"^(fmod|remainder) in uint8.*result 0",
    "where of two scalars is float32, as PyTorch's is by default": r"^where/scalars.*torch.float32 for",
}
