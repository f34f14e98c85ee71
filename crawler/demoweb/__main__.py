from crawler.demoweb.server import main

main()
