"""Other people's API shapes over the same client: `compat.ons` is Aliyun's ONS."""
