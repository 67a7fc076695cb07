"""What a builder makes of contexts and stages: one `builder.Builder`, a class a family."""
