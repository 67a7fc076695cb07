"""Steps of ``imagegate launch`` that several of its commands share."""
